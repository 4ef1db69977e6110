#include "runtime/clock_check.hpp"

#include "dovetail/error.hpp"

namespace dovetail::runtime {
namespace {

/// Clocks are corrected by small steps all the time.
constexpr std::chrono::seconds harmless_step{5};

}  // namespace

void ClockCheck::try_run() {
  try {
    run();
  } catch (const Error& error) {
    log_.write(LogLevel::debug, "platform.clock_not_checked",
               {{"store", database_.name()}, {"error", error.what()}});
  }
}

std::optional<std::chrono::microseconds> ClockCheck::behind(const storage::ReadOptions& options) {
  std::optional<std::chrono::microseconds> lead;
  database_.read([&](storage::ReadSession& session) { lead = database_.clock_lead(session); },
                 options);
  return lead && *lead > harmless_step ? lead : std::nullopt;
}

void ClockCheck::run(const storage::ReadOptions& options) {
  const auto lead = behind(options);
  if (!lead) {
    warned_ = false;
    return;
  }
  metrics_.count("dovetail_clock_stepped_back_total", 1, {{"store", database_.name()}});
  if (warned_.exchange(true)) return;
  const auto by = std::chrono::duration_cast<std::chrono::milliseconds>(*lead);
  log_.write(LogLevel::warn, "platform.clock_stepped_back",
             {{"store", database_.name()}, {"by_ms", by.count()}});
}

}  // namespace dovetail::runtime
