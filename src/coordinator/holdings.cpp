#include "coordinator/holdings.hpp"

namespace dovetail::coordinator {

std::size_t Holdings::note(InstanceId instance, const WorkBatch& batch, const WorkResult& result,
                           std::chrono::milliseconds lease) {
  const std::scoped_lock lock{mutex_};
  const auto now = clock_.mono();
  for (const auto& each : batch.completions) end(each.queue, each.claim.id);
  for (const auto& each : batch.failures) end(each.queue, each.claim.id);
  for (const auto& each : batch.releases) end(each.queue, each.claim.id);
  for (const auto& each : batch.renewals) {
    const auto found = held_.find({each.queue, each.claim.id});
    if (found != held_.end()) found->second.until = now + lease;
  }
  for (const auto& each : result.lost) end(each.queue, each.id);
  if (result.work.empty()) return 0;
  drop_expired(now);
  std::map<StreamKey, std::int64_t> epochs;  // of the leases that this process has
  for (const auto& [key, holding] : held_) {
    if (!holding.stream.empty() && holding.instance == instance)
      epochs[{key.first, holding.stream}] = holding.epoch;
  }
  std::set<StreamKey> violated;
  for (const auto& work : result.work) {
    const StreamKey stream{work.queue, work.message.stream.value_or("")};
    const auto before = epochs.find(stream);
    if (before != epochs.end() && before->second != work.claim.epoch) violated.insert(stream);
    held_[{work.queue, work.claim.id}] = {instance, stream.second, work.claim.epoch, now + lease};
  }
  return violated.size();
}

std::size_t Holdings::held() const {
  const std::scoped_lock lock{mutex_};
  return held_.size();
}

void Holdings::drop_expired(MonoTime now) {
  std::erase_if(held_, [&](const auto& each) { return each.second.until <= now; });
}

void Holdings::join(InstanceId instance) {
  const std::scoped_lock lock{mutex_};
  joined_.insert(instance);
}

bool Holdings::forget(InstanceId instance) {
  const std::scoped_lock lock{mutex_};
  std::erase_if(held_, [&](const auto& each) { return each.second.instance == instance; });
  return joined_.erase(instance) > 0;
}

std::vector<InstanceId> Holdings::instances() const {
  if (!process_.is_current_process()) return {};
  const std::scoped_lock lock{mutex_};
  auto instances = joined_;
  for (const auto& [key, holding] : held_) instances.insert(holding.instance);
  return {instances.begin(), instances.end()};
}

std::vector<WorkRelease> Holdings::releases_of(InstanceId instance) const {
  const std::scoped_lock lock{mutex_};
  std::vector<WorkRelease> releases;
  for (const auto& [key, holding] : held_) {
    if (holding.instance != instance) continue;
    releases.push_back({.queue = key.first, .claim = {.id = key.second, .epoch = holding.epoch}});
  }
  return releases;
}

}  // namespace dovetail::coordinator
