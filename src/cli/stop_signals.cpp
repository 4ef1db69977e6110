#include "cli/stop_signals.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace dovetail::cli {

namespace {

constexpr std::chrono::milliseconds longest_wait = std::chrono::hours{1};  // poll() takes an int

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals(More more) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (more.hang_up_even_if_ignored || !is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  if (more.suspend && !is_ignored(SIGTSTP)) sigaddset(&set, SIGTSTP);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = FileDescriptor{::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)};
  if (!signals_.is_open()) throw std::system_error(errno, std::generic_category(), "signalfd");
}

std::optional<int> StopSignals::wait(std::optional<std::chrono::milliseconds> timeout,
                                     const std::stop_token& stop) {
  const Flag stopped;
  const std::stop_callback on_stop(stop, [&stopped] { stopped.raise(); });
  std::array<pollfd, 2> watched{{{signals_.number(), POLLIN, 0}, {stopped.number(), POLLIN, 0}}};
  const int limit = timeout ? static_cast<int>(timeout->count()) : -1;
  while (::poll(watched.data(), watched.size(), limit) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "poll");
  }
  signalfd_siginfo signal{};
  if (::read(signals_.number(), &signal, sizeof signal) != sizeof signal) return std::nullopt;
  return static_cast<int>(signal.ssi_signo);
}

std::optional<int> StopSignals::wait_for_end(std::optional<std::chrono::milliseconds> timeout,
                                             const std::stop_token& stop) {
  using Steady = std::chrono::steady_clock;
  const auto start = Steady::now();
  while (!stop.stop_requested()) {
    auto left = longest_wait;
    if (timeout) {
      const auto passed = std::chrono::floor<std::chrono::milliseconds>(Steady::now() - start);
      if (passed >= *timeout) return std::nullopt;
      left = std::min(left, *timeout - passed);
    }
    const auto signal = wait(left, stop);
    if (signal && *signal != SIGTSTP) return signal;
    if (signal) ::kill(::getpid(), SIGSTOP);
  }
  return std::nullopt;
}

}  // namespace dovetail::cli
