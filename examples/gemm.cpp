// Multiplies matrices as they lie: one in C order, a transposed view, and a slice of a wider matrix, none of which is copied.

#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main() try {
    td::Device device = td::open_device();
    td::Queue queue(device);

    std::vector<float> a_values(6 * 4), b_values(5 * 4);
    for (std::size_t i = 0; i < a_values.size(); ++i)
        a_values[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < b_values.size(); ++i)
        b_values[i] = static_cast<float>(i % 3);

    td::Array a = td::empty(device, td::float32, {6, 4}), b = td::empty(device, td::float32, {5, 4});
    td::copy(queue, a_values, a);
    td::copy(queue, b_values, b);
    td::Array wide = td::empty(device, td::float32, {6, 8});
    td::Array c = wide.slice(1, 0, 5);

    td::blas::gemm(queue, a, b.transpose(), c);          // c = a b^T: cuBLAS, CLBlast or the system's BLAS
    td::blas::gemm(queue, 2, a, b.transpose(), -1, c);   // c = 2 a b^T - c, which is the same again
    td::Array norm = td::blas::nrm2(queue, c.at(0, 0));  // one number, on the device; nothing has waited so far
    std::cout << td::blas::library(device) << ": " << td::item<float>(queue, norm) << "\n";

    const std::vector<float> values = td::to_vector<float>(queue, c);
    for (std::size_t i = 0; i < 6; ++i) {
        for (std::size_t j = 0; j < 5; ++j) {
            float sum = 0;
            for (std::size_t p = 0; p < 4; ++p)
                sum += a_values[i * 4 + p] * b_values[j * 4 + p];
            if (values[i * 5 + j] != sum) return 1;
        }
    }
    return 0;
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
