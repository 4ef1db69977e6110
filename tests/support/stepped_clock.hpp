// The wall clock of a ManualClock with the monotonic clock of the system: the test controls the
// time of the database, and threads wait as they do in production.
#pragma once

#include <memory>

#include "dovetail/testing/manual_clock.hpp"

namespace dovetail::testing {

class SteppedClock final : public Clock {
 public:
  explicit SteppedClock(std::shared_ptr<ManualClock> manual) : manual_(std::move(manual)) {}

  [[nodiscard]] WallTime wall() const override { return manual_->wall(); }
  [[nodiscard]] MonoTime mono() const override { return system_clock()->mono(); }
  bool sleep_until(MonoTime deadline, const std::stop_token& stop) override {
    return system_clock()->sleep_until(deadline, stop);
  }

 private:
  std::shared_ptr<ManualClock> manual_;
};

}  // namespace dovetail::testing
