#pragma once
// byteswap: out = in, with the bytes of each component in reverse order (a complex number is two components).
//
// Shapes   equal; any strides; out may be in itself.
// Types    every dtype; one-byte types are moved as they are (bool as by copy.hpp).
