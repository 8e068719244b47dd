#pragma once
// Everything in one header.

#include <tandem/adopt.hpp>
#include <tandem/array.hpp>
#include <tandem/buffer.hpp>
#include <tandem/device.hpp>
#include <tandem/dtype.hpp>
#include <tandem/error.hpp>
#include <tandem/fence.hpp>
#include <tandem/grant.hpp>
#include <tandem/load.hpp>
#include <tandem/mapped_file.hpp>
#include <tandem/npy.hpp>
#include <tandem/npy_header.hpp>
#include <tandem/npz.hpp>
#include <tandem/ops.hpp>
#include <tandem/placement.hpp>
#include <tandem/publisher.hpp>
#include <tandem/queue.hpp>
#include <tandem/raw.hpp>
#include <tandem/reduce.hpp>
#include <tandem/reduce_op.hpp>
#include <tandem/shape.hpp>
#include <tandem/share.hpp>
#include <tandem/stream.hpp>
#include <tandem/transfer.hpp>
