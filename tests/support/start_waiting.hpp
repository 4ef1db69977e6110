// Threads that wait, for tests of the order in which they continue.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

namespace dovetail::testing {

/// Starts a thread that runs `body`, and returns once that thread waits inside `body`.
inline std::jthread start_waiting(std::function<void()> body) {
  std::promise<long> started;
  auto id = started.get_future();
  std::jthread thread([&started, body = std::move(body)] {
    started.set_value(::syscall(SYS_gettid));
    body();
  });
  const auto status = "/proc/self/task/" + std::to_string(id.get()) + "/stat";
  for (std::string line; line.find(") S ") == std::string::npos;
       std::getline(std::ifstream{status}, line)) {
    std::this_thread::yield();
  }
  return thread;
}

}  // namespace dovetail::testing
