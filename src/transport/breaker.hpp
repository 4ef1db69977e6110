// Stops a route while its broker is down, and decides when to probe the broker.
//
// It does no I/O and reads no clock: events and times come in, decisions go out.
//
// Threads: the caller's lock guards it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "dovetail/clock.hpp"

namespace dovetail::transport {

class Breaker {
 public:
  Breaker(std::chrono::milliseconds first_probe, std::chrono::milliseconds longest_probe)
      : first_probe_(first_probe), longest_probe_(longest_probe) {}

  [[nodiscard]] bool is_open() const { return since_.has_value(); }
  /// Why it is open.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// When it opened.
  [[nodiscard]] std::optional<MonoTime> since() const { return since_; }

  /// The broker is unavailable. `random` is from 0 to 1. Returns whether this opened the breaker.
  bool open(std::string reason, double random, MonoTime now);
  /// The broker has confirmed a message: the next outage begins with short pauses.
  void note_success() { tries_ = 0; }

  /// Returns whether the caller has to probe the broker now, and then call end_probe().
  [[nodiscard]] bool begin_probe(MonoTime now);
  /// The breaker closes without a problem.
  void end_probe(const std::optional<std::string>& problem, double random, MonoTime now);
  /// When the next probe is due. MonoTime::max(): none is.
  [[nodiscard]] MonoTime next_probe() const;

 private:
  void set_pause(double random, MonoTime now);

  const std::chrono::milliseconds first_probe_;
  const std::chrono::milliseconds longest_probe_;
  std::optional<MonoTime> since_;
  std::string reason_;
  // Pauses since the last confirmation. A successful probe does not reset it: a broker may accept
  // connections and no messages.
  int tries_ = 0;
  bool probing_ = false;
  MonoTime probe_at_{};
};

}  // namespace dovetail::transport
