#pragma once
// The process: its signals, and how it ends.

#include <filesystem>
#include <string>

namespace tandem::command {

/// Makes the process fit to write files: standard streams that are closed can't be mistaken for files opened later, and a closed
/// pipe or a file-size limit is an error instead of a signal. An interrupt ends the process at once, or, while a file is being
/// written, as soon as what was written of it is gone again. Call first.
void prepare_process();

/// From here on, a mapped file that turns out shorter than it was, or that its storage fails, ends the process with exit status 1
/// and one line that says that `job` was at it. Only a program may do so; the library leaves the signal alone.
void guard_mapped_files(const std::string& job);

/// Throws io where an interrupt has come while a `WritingGuard` lived.
void check_interrupt();

/// Whether one has come.
bool is_interrupted() noexcept;

/// While one lives, an interrupt waits until what it protects is cleaned up. Pipes and terminals have nothing to clean up, and
/// writing to them may take for ever: they are not protected.
class WritingGuard {
public:
    explicit WritingGuard(const std::filesystem::path& path);
    ~WritingGuard();
    /// The work on `name` is done: an interrupt that came too late to end it ends the process with a line that says so.
    void set_done(const std::string& name) { done_ = name; }
    WritingGuard(const WritingGuard&) = delete;
    WritingGuard& operator=(const WritingGuard&) = delete;

private:
    std::string done_;
};

/// While one lives, an interrupt does not end the process, but is what `wait` waits for: the job of a server is done then.
class InterruptWait {
public:
    /// Throws io.
    InterruptWait();
    ~InterruptWait();
    InterruptWait(const InterruptWait&) = delete;
    InterruptWait& operator=(const InterruptWait&) = delete;

    /// Blocks until an interrupt comes, or has come.
    void wait() const;

private:
    int reader_ = -1;
};

}  // namespace tandem::command
