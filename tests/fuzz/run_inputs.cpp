// Feeds files to a fuzz target without a fuzzer, as a regression test:
//   run_inputs [--random N] [--seed S] FILE-OR-FOLDER...
// With --random, N inputs more, made from the files by deterministic changes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using Input = std::vector<std::uint8_t>;

void run(const Input& input) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
}

Input read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "%s: can't be read\n", path.c_str());
        std::exit(2);
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Changes that keep most of an input's form: bytes replaced, removed, inserted and copied, inputs spliced, the end cut off.
class Mutator {
public:
    Mutator(const std::vector<Input>& inputs, std::uint64_t seed) : inputs_(inputs), random_(seed) {}

    Input next() {
        Input input = inputs_[below(inputs_.size())];
        const std::size_t changes = 1 + below(8);
        for (std::size_t i = 0; i < changes; ++i) {
            change(input);
        }
        // Most headers stay whole only where their length field goes along; version 1.0 has two bytes of it.
        if (input.size() > 10 && below(2) == 0) {
            const std::size_t length = std::min<std::size_t>(input.size() - 10, 0xffff);
            input[8] = static_cast<std::uint8_t>(length & 0xffU);
            input[9] = static_cast<std::uint8_t>(length >> 8U);
        }
        return input;
    }

private:
    std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>(random_() % bound); }

    std::uint8_t byte() {
        constexpr std::string_view likely = "(){}[]',:\"\\ \n\t#L<>|=0123456789-+.buUrxfciSVOMmTrueFalse";
        return below(3) == 0 ? static_cast<std::uint8_t>(below(256)) : static_cast<std::uint8_t>(likely[below(likely.size())]);
    }

    void change(Input& input) {
        const auto at = static_cast<std::ptrdiff_t>(below(input.size() + 1));
        const auto rest = static_cast<std::size_t>(input.end() - (input.begin() + at));
        switch (below(7)) {
            case 0:
                input.insert(input.begin() + at, byte());
                break;
            case 1:
                input.erase(input.begin() + at, input.begin() + at + static_cast<std::ptrdiff_t>(std::min(rest, 1 + below(4))));
                break;
            case 2:
                input.resize(below(8) == 0 ? static_cast<std::size_t>(at) : input.size());
                break;
            case 3: {
                const Input piece(input.begin() + at,
                                  input.begin() + at + static_cast<std::ptrdiff_t>(std::min(rest, below(32))));
                const auto target = static_cast<std::ptrdiff_t>(below(input.size() + 1));
                input.insert(input.begin() + target, piece.begin(), piece.end());
                break;
            }
            case 4: {
                const Input& other = inputs_[below(inputs_.size())];
                const auto from = static_cast<std::ptrdiff_t>(below(other.size()));
                const auto count = std::min(other.size() - static_cast<std::size_t>(from), below(64));
                input.insert(input.begin() + at, other.begin() + from, other.begin() + from + static_cast<std::ptrdiff_t>(count));
                break;
            }
            default:
                if (rest > 0) {
                    input[static_cast<std::size_t>(at)] = byte();
                }
        }
    }

    const std::vector<Input>& inputs_;
    std::mt19937_64 random_;
};

void collect(const fs::path& path, std::vector<fs::path>& files) {
    if (!fs::is_directory(path)) {
        files.push_back(path);
        return;
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
        if (entry.is_regular_file()) {
            files.push_back(entry.path());
        }
    }
}

int run_all(const std::vector<std::string>& arguments) {
    std::uint64_t random_count = 0;
    std::uint64_t seed = 1;
    std::vector<fs::path> files;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const bool is_option = arguments[i] == "--random" || arguments[i] == "--seed";
        if (is_option && i + 1 < arguments.size()) {
            (arguments[i] == "--random" ? random_count : seed) = std::stoull(arguments[i + 1]);
            ++i;
        } else if (arguments[i].starts_with("--")) {
            std::fprintf(stderr, "usage: run_inputs [--random N] [--seed S] FILE-OR-FOLDER...\n");
            return 2;
        } else {
            collect(arguments[i], files);
        }
    }
    // In one order everywhere, so that a seed means the same inputs.
    std::sort(files.begin(), files.end());
    std::vector<Input> inputs;
    for (const fs::path& file : files) {
        inputs.push_back(read(file));
        run(inputs.back());
    }
    if (random_count > 0 && inputs.empty()) {
        inputs.emplace_back();
    }
    Mutator mutator(inputs, seed);
    for (std::uint64_t i = 0; i < random_count; ++i) {
        run(mutator.next());
    }
    std::printf("%zu files and %llu inputs made from them: no failure\n", files.size(),
                static_cast<unsigned long long>(random_count));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_all({argv + 1, argv + argc});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "run_inputs: %s\n", error.what());
        return 1;
    }
}
