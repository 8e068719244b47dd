#pragma once
// From a typed expression to the source of its kernels, in the languages that devices take.

#include <string>

#include "core/expression/program.hpp"

namespace tandem::expression {

/// GPUs take neighbouring elements by neighbouring items; a processor's item walks a stretch of memory, which its compiler
/// vectorises, at any alignment.
enum class Dialect : std::uint8_t { cuda, opencl_gpu, opencl_cpu };

inline constexpr std::size_t layout_count = 4;

/// How the operands lie.
enum class Layout : std::uint8_t {
    packs,    ///< without gaps; on a GPU each pack of every operand is aligned to the access that it is read by
    loose,    ///< without gaps, on a GPU where packs are not aligned, but every element to its components' size
    aligned,  ///< any strides; on a GPU every element is aligned to its components' size
    bytes,    ///< any strides and any alignment
};

/// Elements that an item of a `packs` kernel on a GPU does at a time: as many as make 16 bytes of the smallest type, and no more
/// than 64 of the largest.
std::uint64_t pack_elements(const Program& program) noexcept;
/// Bytes of the widest access to a pack of `item_bytes` an element.
std::size_t access_bytes(std::size_t item_bytes, std::uint64_t elements) noexcept;

/// Elements that an item of a `loose` kernel does, a group's width apart, so that several accesses are under way.
inline constexpr std::uint64_t loose_elements = 4;

inline constexpr std::uint32_t group_items = 256;  ///< of every GPU kernel; 1 on a processor
/// A processor's item does so many elements of a strided call.
inline constexpr std::uint64_t strided_elements_per_item = 4096;

inline constexpr const char* kernel_name = "tandem_expression";

/// The kernel's source. Its parameters: for each array a pointer to its allocation's start and 64 bits of byte offset, then a
/// struct of 64-bit words: count, packs, head, elements per item; two for each uniform; and, but for `packs`, the first
/// dimension, the shape and each array's strides in bytes, both ranged right in max_kernel_dimensions.
std::string kernel_source(const Program& program, Dialect dialect, Layout layout);

}  // namespace tandem::expression
