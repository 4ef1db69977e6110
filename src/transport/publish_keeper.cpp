// The keeper of a route: it renews leases, and searches for topics.
#include <algorithm>

#include "storage/row_hint.hpp"
#include "transport/publish_service.hpp"

namespace dovetail::transport {

void PublishService::keep() {
  std::unique_lock lock(mutex_);
  while (!keeper_ends_) {
    keeping_.begin();
    const auto now = clock().mono();
    const bool wants_search = topics_.is_pattern() && (searches_ || now >= search_at_);
    if (wants_search && !stopping_ && now >= topics_.next_search()) {
      searches_ = false;
      lock.unlock();
      search();
      lock.lock();
      continue;
    }
    if (now >= keep_at_) {
      lock.unlock();
      renew();
      lock.lock();
      continue;
    }
    auto wake = std::min<MonoTime>(keep_at_, now + std::chrono::hours{1});
    if (topics_.is_pattern() && !stopping_) {
      wake = std::min(wake, std::max(topics_.next_search(), searches_ ? now : search_at_));
    }
    keeping_.rest(wake);
    clock().wait_until(keeper_wakes_, lock, wake);
  }
  keeping_.rest(MonoTime::max());
}

// --- topics

void PublishService::search() {
  bool found = false;
  try {
    found = topics_.search(scope_.database, io_.get_token());
  } catch (const std::exception& error) {
    scope_.log_error("topic_search_failed", "dovetail_transport_search_failed_total", error);
  }
  const std::lock_guard lock(mutex_);
  search_at_ = clock().mono() +
               (listener_.hears_others() ? worker_.idle_poll_interval : worker_.poll_interval);
  if (!found) return;
  planner_.set_topics(topics_.topics());
  wakes_.notify_all();
}

// --- leases

/// A run is closed soon: messages that are committed into it wait for that.
std::vector<Claim> PublishService::claims_to_renew(MonoTime now) {
  std::vector<Claim> claims;
  const auto lease = MonoDuration{worker_.lease};
  const std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    for (const auto& work : lane.works) {
      if (work.ended || work.lost) continue;
      const bool is_of_run = storage::is_of_run(work.claim) && !work.renewed;
      const auto patience = is_of_run ? std::min<MonoDuration>(lease / 3, longest_run) : lease / 3;
      if (now >= work.lease_end - lease + patience) claims.push_back(work.claim);
    }
  }
  std::ranges::sort(claims, {}, &Claim::id);
  return claims;
}

void PublishService::renew() {
  const auto sent_at = clock().mono();
  const auto claims = claims_to_renew(sent_at);
  if (!claims.empty()) {
    try {
      auto held = source_.renew(claims, worker_.lease, io_.get_token());
      scope_.count_metric("dovetail_lease_renewed_total", held.size());
      note_renewal(claims, std::move(held), sent_at);
    } catch (const std::exception& error) {
      scope_.log_error("renewal_failed", "dovetail_lease_renewal_failed_total", error);
    }
  }
  const std::lock_guard lock(mutex_);
  const bool holds =
      std::ranges::any_of(lanes_, [](const Lane& lane) { return !lane.works.empty(); });
  const auto interval = std::min<MonoDuration>(worker_.lease / 6, longest_run / 2);
  keep_at_ = holds ? clock().mono() + interval : MonoTime::max();
}

void PublishService::note_renewal(const std::vector<Claim>& asked, std::vector<MessageId> held,
                                  MonoTime sent_at) {
  std::ranges::sort(held);
  const std::lock_guard lock(mutex_);
  for (auto& lane : lanes_) {
    for (auto& work : lane.works) {
      const auto place = std::ranges::lower_bound(asked, work.claim.id, {}, &Claim::id);
      if (work.ended || place == asked.end() || !(*place == work.claim)) continue;
      if (std::ranges::binary_search(held, work.claim.id)) {
        work.lease_end = std::max(work.lease_end, sent_at + MonoDuration{worker_.lease});
        work.renewed = true;
      } else if (!storage::is_of_stream(work.claim)) {
        work.lost = true;
      }
    }
  }
}

}  // namespace dovetail::transport
