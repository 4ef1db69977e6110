// Takes samples of the databases of this process (dovetail/sample.hpp), and sets the gauges.
//
// Threads: any. The sampler has one thread, from the first call on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/metrics.hpp"
#include "dovetail/sample.hpp"

namespace dovetail::observe {

class Sampler {
 public:
  /// A database, and the function that reads its state. It throws if the database does not answer,
  /// and returns soon after the stop token fires.
  struct Source {
    std::string store;
    std::function<StoreSample(const std::stop_token&)> take;
  };
  /// Returns the databases of the process. Called for each sample.
  using Sources = std::function<std::vector<Source>()>;

  /// The time limits of taking a sample, and of a caller's wait.
  struct Limits {
    std::chrono::milliseconds round{5'000};
    std::chrono::milliseconds patience{2'000};
  };

  Sampler(Sources sources, std::shared_ptr<Clock> clock, Metrics metrics);
  Sampler(Sources sources, std::shared_ptr<Clock> clock, Metrics metrics, Limits limits);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  /// Returns a sample that is younger than `max_age`, or the last one if a new one takes too long.
  [[nodiscard]] std::shared_ptr<const Sample> get(std::chrono::milliseconds max_age);

 private:
  void run(const std::stop_token& stop);
  void take(const std::stop_token& stop);
  [[nodiscard]] StoreSample taken_from(const Source& source, const std::stop_token& stop) const;
  /// Removes databases that have left.
  void forget_others(const std::vector<Source>& sources);
  void keep(StoreSample sample);

  const Sources sources_;
  const std::shared_ptr<Clock> clock_;
  const Metrics metrics_;
  const Limits limits_;

  std::mutex mutex_;  // guards the next members
  std::condition_variable_any changed_;
  std::shared_ptr<const Sample> latest_;
  MonoTime latest_at_{};
  std::uint64_t wanted_ = 0;   // the number of the last round that a caller wants
  std::uint64_t started_ = 0;  // the number of the last round that has begun
  std::uint64_t ended_ = 0;    // the number of the last round that has ended

  // Used by the thread only.
  std::map<std::string, StoreSample> stores_;
  std::map<std::string, std::uint64_t> tried_in_;  // the round in which a database was read last

  std::jthread thread_;
};

}  // namespace dovetail::observe
