#if TANDEM_TEST_CUDA

#include <doctest/doctest.h>

#include <cstring>

#include "backends/cuda/compiler.hpp"
#include "core/expression/parser.hpp"
#include "core/expression/program.hpp"
#include "core/expression/source.hpp"
#include "tandem/error.hpp"

// NVRTC needs no device. Where the library is not installed, saying so is what there is to test.

namespace tandem::cuda {
namespace {

constexpr int driver_version = 13000;

const Compiler* compiler_or_null() {
    try {
        return &Compiler::get(driver_version);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unavailable);
        CHECK(std::string(error.what()).find("libnvrtc.so.13 not found") != std::string::npos);
        CHECK(std::string(error.what()).find("libnvrtc.so.12") != std::string::npos);
        return nullptr;
    }
}

std::string failure(const Compiler& compiler, ErrorCode code, const std::string& source, const std::string& name,
                    const std::vector<std::string>& options = {}) {
    try {
        (void)compiler.compile("cuda:7", source, "mine.cu", name, options, 90);
    } catch (const Error& error) {
        CHECK_MESSAGE(error.code() == code, std::string(error.what()));
        return error.what();
    }
    FAIL("an error was expected");
    return {};
}

bool has(const std::string& text, const char* words) {
    return text.find(words) != std::string::npos;
}

const std::string good =
    "extern \"C\" __global__ void plain(int* p) { *p = VALUE; }\n"
    "namespace deep { template <class T> __global__ void typed(T* p) { *p = T(1); } }\n";

}  // namespace

TEST_CASE("NVRTC: an image for the device's architecture, and the kernel's name in it") {
    const Compiler* compiler = compiler_or_null();
    if (compiler == nullptr) return;
    const CompiledSource plain = compiler->compile("cuda:7", good, "mine.cu", "plain", {"-DVALUE=1"}, 90);
    CHECK(plain.kernel_name == "plain");
    REQUIRE(plain.image.size() > 4);
    CHECK(std::memcmp(plain.image.data(),
                      "\x7f"
                      "ELF",
                      4) == 0);
    const CompiledSource typed = compiler->compile("cuda:7", good, "mine.cu", "deep::typed<float>", {"-DVALUE=1"}, 90);
    CHECK(has(typed.kernel_name, "_ZN4deep5typed"));
    // A device newer than the compiler gets PTX, which its driver compiles to the end.
    const CompiledSource newer = compiler->compile("cuda:7", good, "mine.cu", "plain", {"-DVALUE=1"}, 999);
    CHECK(has(std::string(reinterpret_cast<const char*>(newer.image.data()), newer.image.size()), ".entry plain"));
}

TEST_CASE("NVRTC: what expressions are made of, for complex numbers") {
    const Compiler* compiler = compiler_or_null();
    if (compiler == nullptr) return;
    using namespace expression;
    const std::string text = "o = a * x / (x + 2) ** a - sqrt(x) + exp(x) + log(a) + sin(x) - cos(x) + abs(a)";
    for (const DType dtype : {DType::complex64, DType::complex128}) {
        std::vector<OperandType> operands;
        for (const char* name : {"o", "a", "x"})
            operands.push_back({name, {dtype, false}, true});
        const Program program = make_program("test", text, parse("test", text), operands);
        for (const Layout layout : {Layout::packs, Layout::loose, Layout::aligned, Layout::bytes}) {
            const std::string source = kernel_source(program, Dialect::cuda, layout);
            const CompiledSource compiled = compiler->compile("cuda:7", source, "e.cu", kernel_name, {"--fmad=false"}, 90);
            CHECK(compiled.kernel_name == kernel_name);
        }
    }
}

TEST_CASE("NVRTC: what does not compile, with the caller's lines") {
    const Compiler* compiler = compiler_or_null();
    if (compiler == nullptr) return;
    const std::string undeclared = failure(*compiler, ErrorCode::build_failed, good, "plain");
    CHECK(has(undeclared, "mine.cu(1): error"));
    CHECK(has(undeclared, "VALUE"));
    CHECK(has(undeclared, "cuda:7: nvrtcCompileProgram of plain"));
    CHECK(has(failure(*compiler, ErrorCode::build_failed, "\n\n#line 50\nx", "plain"), "mine.cu(50)"));
    CHECK(has(failure(*compiler, ErrorCode::invalid_argument, good, "absent", {"-DVALUE=1"}), "no kernel of that name"));
    CHECK(has(failure(*compiler, ErrorCode::invalid_argument, good, "plain", {"-DVALUE=1", "--no-such-option"}),
              "--no-such-option"));
}

}  // namespace tandem::cuda

#endif
