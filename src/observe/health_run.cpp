#include "observe/health_run.hpp"

#include <thread>
#include <utility>

namespace dovetail::observe {
namespace {

std::chrono::microseconds time_since(HealthRun::Time begun) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               begun);
}

std::string in_words(std::chrono::milliseconds time) {
  if (time.count() % 1'000 != 0) return std::to_string(time.count()) + " ms";
  return std::to_string(time.count() / 1'000) + " s";
}

}  // namespace

std::shared_ptr<HealthRun> HealthRun::start(Body body) {
  auto run = std::make_shared<HealthRun>();
  std::thread([run, body = std::move(body)] { run->run(body); }).detach();
  return run;
}

void HealthRun::run(const Body& body) {
  body(stop_.get_token(), *this);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void HealthRun::begin(std::string name, std::vector<std::string> tags) {
  const std::lock_guard lock(mutex_);
  current_ = Begun{std::move(name), std::move(tags), std::chrono::steady_clock::now()};
}

void HealthRun::end(HealthResult result) {
  const std::lock_guard lock(mutex_);
  auto begun = *std::exchange(current_, std::nullopt);
  done_.push_back({.name = std::move(begun.name),
                   .status = result.status,
                   .duration = time_since(begun.at),
                   .description = std::move(result.description),
                   .data = std::move(result.data),
                   .tags = std::move(begun.tags)});
}

void HealthRun::leave_out() {
  const std::lock_guard lock(mutex_);
  current_.reset();
}

bool HealthRun::has_ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool HealthRun::wait_until(Time deadline) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return ended_; });
}

void HealthRun::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_; });
}

std::vector<HealthCheck> HealthRun::checks(std::chrono::milliseconds limit) const {
  const std::lock_guard lock(mutex_);
  auto checks = done_;
  if (current_) {  // it hangs, or it was cancelled at the time limit and has ended just now
    checks.push_back({.name = current_->name,
                      .status = HealthStatus::unhealthy,
                      .duration = time_since(current_->at),
                      .description = "no answer within " + in_words(limit),
                      .data = {},
                      .tags = current_->tags});
  }
  return checks;
}

}  // namespace dovetail::observe
