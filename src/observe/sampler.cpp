#include "observe/sampler.hpp"

#include <algorithm>
#include <set>

#include "observe/sample_gauges.hpp"

namespace dovetail::observe {

Sampler::Sampler(Sources sources, std::shared_ptr<Clock> clock, Metrics metrics)
    : Sampler(std::move(sources), std::move(clock), std::move(metrics), Limits{}) {}

Sampler::Sampler(Sources sources, std::shared_ptr<Clock> clock, Metrics metrics, Limits limits)
    : sources_(std::move(sources)),
      clock_(std::move(clock)),
      metrics_(std::move(metrics)),
      limits_(limits) {}

Sampler::~Sampler() = default;  // the thread ends first: it is the last member

std::shared_ptr<const Sample> Sampler::get(std::chrono::milliseconds max_age) {
  std::unique_lock lock(mutex_);
  if (latest_ && clock_->mono() - latest_at_ < max_age) return latest_;
  const bool joins_running = started_ > ended_ && max_age.count() > 0;
  const auto mine = joins_running ? started_ : started_ + 1;
  wanted_ = std::max(wanted_, mine);
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  changed_.notify_all();
  const auto give_up_at = std::chrono::steady_clock::now() + limits_.patience;
  changed_.wait_until(lock, give_up_at, [&] { return ended_ >= mine; });
  return latest_ ? latest_ : std::make_shared<const Sample>();
}

void Sampler::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return wanted_ > ended_; })) {
    ++started_;
    lock.unlock();
    take(stop);
    auto sample = std::make_shared<Sample>();
    for (const auto& [store, part] : stores_) sample->stores.push_back(part);
    lock.lock();
    latest_ = std::move(sample);
    latest_at_ = clock_->mono();
    ended_ = started_;
    changed_.notify_all();
  }
}

/// Reads the databases, those first that have not been read for the longest time.
void Sampler::take(const std::stop_token& stop) {
  auto sources = sources_();
  forget_others(sources);
  std::ranges::stable_sort(sources, {},
                           [this](const Source& each) { return tried_in_[each.store]; });
  std::stop_source limit;
  const std::stop_callback with_us(stop, [&limit] { limit.request_stop(); });
  std::mutex waiting;
  std::condition_variable_any over;
  const std::jthread timer([&](const std::stop_token& done) {
    std::unique_lock lock(waiting);
    over.wait_for(lock, done, limits_.round, [] { return false; });
    if (!done.stop_requested()) limit.request_stop();
  });
  for (const auto& source : sources) {
    if (limit.stop_requested()) break;
    tried_in_[source.store] = started_;
    keep(taken_from(source, limit.get_token()));
  }
}

StoreSample Sampler::taken_from(const Source& source, const std::stop_token& stop) const {
  StoreSample sample;
  try {
    sample = source.take(stop);
    sample.taken_at = clock_->wall();
  } catch (const std::exception& error) {
    const auto last = stores_.find(source.store);
    if (last != stores_.end()) sample = last->second;
    sample.error = error.what();
  }
  sample.store = source.store;
  return sample;
}

void Sampler::keep(StoreSample sample) {
  const auto last = stores_.find(sample.store);
  if (sample.error.empty()) {
    set_gauges(metrics_, last != stores_.end() ? &last->second : nullptr, sample);
  }
  stores_.insert_or_assign(sample.store, std::move(sample));
}

void Sampler::forget_others(const std::vector<Source>& sources) {
  std::set<std::string_view> present;
  for (const auto& source : sources) present.insert(source.store);
  for (auto each = stores_.begin(); each != stores_.end();) {
    if (present.contains(each->first)) {
      ++each;
      continue;
    }
    remove_gauges(metrics_, each->second);
    tried_in_.erase(each->first);
    each = stores_.erase(each);
  }
}

}  // namespace dovetail::observe
