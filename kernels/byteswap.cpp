#include "kernels/byteswap.hpp"

#include "kernels/elementwise_host.hpp"

namespace {
struct Byteswap {
    bool operator()(bool value) const { return value; }
    std::uint8_t operator()(std::uint8_t value) const { return value; }
    std::uint16_t operator()(std::uint16_t value) const { return __builtin_bswap16(value); }
    std::uint32_t operator()(std::uint32_t value) const { return __builtin_bswap32(value); }
    std::uint64_t operator()(std::uint64_t value) const { return __builtin_bswap64(value); }
    tandem::Pair<float> operator()(tandem::Pair<float> value) const {
        return {swapped<std::uint32_t>(value.first), swapped<std::uint32_t>(value.second)};
    }
    tandem::Pair<double> operator()(tandem::Pair<double> value) const {
        return {swapped<std::uint64_t>(value.first), swapped<std::uint64_t>(value.second)};
    }

private:
    template <class Bits, class T>
    T swapped(T value) const {
        return __builtin_bit_cast(T, (*this)(__builtin_bit_cast(Bits, value)));
    }
};
}  // namespace

TANDEM_HOST_KERNELS(byteswap, Byteswap)
