#pragma once
// Kernels for the host backend: ordinary functions.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem {

/// Where an item of a launch stands; dimensions that the launch lacks are 0.
struct Item {
    std::uint64_t x = 0, y = 0, z = 0;
};

/// The items that one call of a host kernel is to do: those from `begin` to `end` (not included) in each dimension.
struct ItemRange {
    std::array<std::uint64_t, 3> begin{};
    std::array<std::uint64_t, 3> end{};
};

/// A kernel as a function. `run` is called for ranges that cover all items once, from several threads at a time; `arguments` has
/// the address of each argument: of the pointer, where it is an array. An exception ends the launch; whoever waits for the work
/// gets an error with its text.
struct HostFunction {
    std::function<void(const ItemRange& items, const void* const* arguments)> run{};
    int max_dimensions = 3;
    bool has_parameters = false;  ///< the two lists below say what `run` takes, and launches are held to it
    std::vector<std::size_t> parameter_bytes{};
    std::vector<bool> is_pointer{};

    explicit operator bool() const noexcept { return static_cast<bool>(run); }
};

namespace detail {

template <class Function>
struct HostSignature : HostSignature<decltype(&Function::operator())> {};
template <class Index, class... Arguments>
struct HostSignature<void (*)(Index, Arguments...)> {
    using IndexType = std::remove_cvref_t<Index>;
    using ArgumentTypes = std::tuple<std::remove_cvref_t<Arguments>...>;
};
template <class Class, class Index, class... Arguments>
struct HostSignature<void (Class::*)(Index, Arguments...) const> : HostSignature<void (*)(Index, Arguments...)> {};
template <class Class, class Index, class... Arguments>
struct HostSignature<void (Class::*)(Index, Arguments...)> : HostSignature<void (*)(Index, Arguments...)> {};

template <class Index, class Function, class... Values>
void run_host_items(const Function& function, const ItemRange& items, Values... values) {
    if constexpr (std::is_integral_v<Index>) {
        for (std::uint64_t x = items.begin[0]; x < items.end[0]; ++x)
            function(static_cast<Index>(x), values...);
    } else {
        for (std::uint64_t z = items.begin[2]; z < items.end[2]; ++z)
            for (std::uint64_t y = items.begin[1]; y < items.end[1]; ++y)
                for (std::uint64_t x = items.begin[0]; x < items.end[0]; ++x)
                    function(Index{x, y, z}, values...);
    }
}

template <class Index, class Function, class... Types, std::size_t... positions>
HostFunction make_host_function(Function function, std::tuple<Types...>* /*types*/,
                                std::index_sequence<positions...> /*positions*/) {
    static_assert((std::is_trivially_copyable_v<Types> && ...), "arguments are pointers and plain values");
    HostFunction kernel;
    kernel.run = [function = std::move(function)](const ItemRange& items, const void* const* arguments) {
        (void)arguments;
        run_host_items<Index>(function, items, *static_cast<const Types*>(arguments[positions])...);
    };
    kernel.max_dimensions = std::is_integral_v<Index> ? 1 : 3;
    kernel.has_parameters = true;
    kernel.parameter_bytes = {sizeof(Types)...};
    kernel.is_pointer = {std::is_pointer_v<Types>...};
    return kernel;
}

}  // namespace detail

/// A function called for each item, as a host kernel: its first parameter is the item, as an integer (one dimension) or an Item,
/// the others are what the launch is given, pointers for arrays and plain values:
/// `host_kernel([](std::size_t i, const float* x, float* y, float a) { y[i] += a * x[i]; })`. A compiler makes a loop of it.
template <class Function>
HostFunction host_kernel(Function function) {
    using Signature = detail::HostSignature<Function>;
    using Index = typename Signature::IndexType;
    static_assert(std::is_integral_v<Index> || std::is_same_v<Index, Item>, "the first parameter is an integer or an Item");
    using Types = typename Signature::ArgumentTypes;
    return detail::make_host_function<Index>(std::move(function), static_cast<Types*>(nullptr),
                                             std::make_index_sequence<std::tuple_size_v<Types>>());
}

}  // namespace tandem
