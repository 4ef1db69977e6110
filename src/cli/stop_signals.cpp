#include "cli/stop_signals.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace dovetail::cli {

StopSignals::StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = FileDescriptor{::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)};
  if (!signals_.is_open()) throw std::system_error(errno, std::generic_category(), "signalfd");
}

bool StopSignals::wait(std::optional<std::chrono::milliseconds> timeout, const std::stop_token& stop) {
  const Flag stopped;
  const std::stop_callback on_stop(stop, [&stopped] { stopped.raise(); });
  std::array<pollfd, 2> watched{{{signals_.number(), POLLIN, 0}, {stopped.number(), POLLIN, 0}}};
  const int limit = timeout ? static_cast<int>(timeout->count()) : -1;
  while (::poll(watched.data(), watched.size(), limit) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "poll");
  }
  signalfd_siginfo signal{};
  return ::read(signals_.number(), &signal, sizeof signal) == sizeof signal;
}

}  // namespace dovetail::cli
