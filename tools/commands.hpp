#pragma once
// What `tandem` can be told to do: one function a command, each in the file of its name.

#include <functional>

namespace CLI {
class App;
}

namespace tandem::command {

/// Each adds its command to `app`. Parsing only notes what was asked for: the work is stored in `job`, to be called once the
/// whole command line has turned out right.
void add_devices(CLI::App& app, std::function<void()>& job);
void add_info(CLI::App& app, std::function<void()>& job);
void add_add(CLI::App& app, std::function<void()>& job);
void add_double(CLI::App& app, std::function<void()>& job);
void add_share(CLI::App& app, std::function<void()>& job);
void add_attach(CLI::App& app, std::function<void()>& job);
void add_forget(CLI::App& app, std::function<void()>& job);
void add_bench(CLI::App& app, std::function<void()>& job);

}  // namespace tandem::command
