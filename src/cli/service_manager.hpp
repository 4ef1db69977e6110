// Tells the service manager (systemd) how this process is: READY, STOPPING, WATCHDOG. Without one,
// all of it does nothing.
//
// Threads: one thread uses it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace dovetail::cli {

class ServiceManager {
 public:
  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the environment:
  /// they are not for our children.
  ServiceManager();

  void ready(const std::string& status) const;
  void stopping() const { notify("STOPPING=1"); }
  void alive() const { notify("WATCHDOG=1"); }
  /// How often alive() must be called: half of the watchdog's time. Absent: there is no watchdog.
  [[nodiscard]] std::optional<std::chrono::milliseconds> watchdog_interval() const {
    return interval_;
  }

 private:
  /// A failure is ignored: the manager then misses the message, and acts by its own rules.
  void notify(const std::string& text) const;

  std::string socket_;
  std::optional<std::chrono::milliseconds> interval_;
};

}  // namespace dovetail::cli
