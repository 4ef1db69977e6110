#include "transport/breaker.hpp"

#include <utility>

#include "dovetail/backoff.hpp"

namespace dovetail::transport {

bool Breaker::open(std::string reason, double random, MonoTime now) {
  reason_ = std::move(reason);
  if (since_) return false;
  since_ = now;
  set_pause(random, now);
  return true;
}

bool Breaker::begin_probe(MonoTime now) {
  if (!since_ || probing_ || now < probe_at_) return false;
  probing_ = true;
  return true;
}

void Breaker::end_probe(const std::optional<std::string>& problem, double random, MonoTime now) {
  probing_ = false;
  if (problem) {
    reason_ = *problem;
    set_pause(random, now);
  } else {
    since_.reset();
    reason_.clear();
  }
}

MonoTime Breaker::next_probe() const {
  return since_ && !probing_ ? probe_at_ : MonoTime::max();
}

void Breaker::set_pause(double random, MonoTime now) {
  const FullJitterBackoff backoff{.initial = first_probe_, .cap = longest_probe_};
  probe_at_ = now + backoff.delay(tries_++, random);
}

}  // namespace dovetail::transport
