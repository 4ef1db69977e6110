// Shared parts of the measures of `dovetail bench`: time, numbers as text, messages, findings.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "cli/bench/measures.hpp"

namespace dovetail::cli::bench {

using Steady = std::chrono::steady_clock;

inline constexpr const char* topic = "bench";

[[nodiscard]] double seconds_since(Steady::time_point start);
[[nodiscard]] Steady::time_point in_seconds(double seconds);

[[nodiscard]] std::string with_thousands(double value);
[[nodiscard]] std::string fixed(double value, int digits);

/// `0.95 times (bar 0.90: reached)`.
[[nodiscard]] std::string judged(double ratio, double bar);

/// A JSON object of 100 bytes.
[[nodiscard]] std::string payload(std::int64_t number);
/// The number of a payload().
[[nodiscard]] std::int64_t number_in(const std::string& payload);

/// Opens the database, and creates the schema of `settings` if it does not exist.
[[nodiscard]] Platform open(const Settings& settings);
/// The rows of a query in a transaction of its own.
Rows ask(Platform& platform, const std::string& sql);

/// The batch size and whether history is kept, for people.
[[nodiscard]] std::string described(const Settings& settings);

/// Runs `body(number)` on `count` threads at once. Rethrows their first exception.
void on_threads(int count, const std::function<void(int)>& body);

/// Enqueues `settings.messages` messages from two threads. Returns the rate.
Finding load(Platform& platform, const Settings& settings, const Progress& progress);

/// Messages per second.
[[nodiscard]] Finding rate(std::string measure, std::string setting, std::int64_t messages,
                           double seconds);
/// Percentiles of milliseconds.
[[nodiscard]] Finding times(std::string measure, std::string setting,
                            const std::vector<double>& samples);
[[nodiscard]] double middle(std::vector<double> values);

}  // namespace dovetail::cli::bench
