#include "tools/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "tools/process.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

// Own code: Debian has no library for a bar, and this is one line.
class Bar {
public:
    explicit Bar(const std::string& what) : what_(one_line(what)), is_wanted_(::isatty(STDERR_FILENO) != 0) {}
    ~Bar() {
        if (is_shown_) write("\r\x1b[K");
    }
    Bar(const Bar&) = delete;
    Bar& operator=(const Bar&) = delete;

    void show(const Progress& progress) {
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        if (!is_wanted_ || seconds < 1 || seconds - shown_at_ < 0.1 || progress.total_bytes == 0) return;
        shown_at_ = seconds;
        is_shown_ = true;
        const double part = static_cast<double>(progress.done_bytes) / static_cast<double>(progress.total_bytes);
        const double rate = static_cast<double>(progress.done_bytes) / seconds;
        const double left = rate > 0 ? static_cast<double>(progress.total_bytes - progress.done_bytes) / rate : 0;
        constexpr std::size_t bar_width = 24;
        const auto filled = std::min(bar_width, static_cast<std::size_t>(part * bar_width));
        std::string line = fmt::format("{:3.0f} % [{:<{}}] {}, {} left, {}", 100 * part, std::string(filled, '#'), bar_width,
                                       rate_text(progress.done_bytes, seconds), duration_text(left), what_);
        // Longer lines would wrap, and the next one could not replace them.
        line = line.substr(0, terminal_columns() - 1);
        write("\r" + line + "\x1b[K");
    }

private:
    static std::size_t terminal_columns() {
        winsize size{};
        return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
    }
    static void write(const std::string& text) { static_cast<void>(::write(STDERR_FILENO, text.data(), text.size()) < 0); }

    const std::string what_;
    const bool is_wanted_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    double shown_at_ = 0;
    bool is_shown_ = false;
};

}  // namespace

TransferOptions show_progress(const std::string& what) {
    TransferOptions options;
    options.progress = [bar = std::make_shared<Bar>(what)](const Progress& progress) {
        check_interrupt();
        bar->show(progress);
    };
    return options;
}

}  // namespace tandem::command
