// Uses a raw recording of complex64 samples in place, once as the complex numbers that it holds and once as their parts.
//
//   raw_complex RECORDING.raw

#include <complex>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    if (argc != 2) {
        std::cerr << "usage: raw_complex RECORDING.raw\n";
        return 2;
    }
    td::Device device = td::open_device();
    td::Queue queue(device);

    td::Array samples = td::raw::map(device, argv[1], td::complex64);
    td::Array parts = samples.view_as(td::float32).reshape({-1, 2});  // the same bytes: a row of two floats for each sample
    std::cout << samples.count() << " samples, " << samples.residency() << "\n";

    td::Array twice = td::empty_like(samples, td::MemoryKind::device);
    td::Array sums = td::empty(device, td::float32, {samples.count()});
    td::twice(queue, samples, twice);
    td::add(queue, parts.at(1, 0), parts.at(1, 1), sums);

    // The file's samples are looked at where they are, too.
    auto in = samples.map<std::complex<float>>(td::Access::read);
    auto doubled = twice.map<std::complex<float>>(td::Access::read);
    auto summed = sums.map<float>(td::Access::read);
    for (std::size_t i = 0; i < in.size(); ++i) {
        if (doubled[i] != in[i] + in[i] || summed[i] != in[i].real() + in[i].imag()) return 1;
    }
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
