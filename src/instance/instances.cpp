#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "core/topic_pattern.hpp"
#include "dovetail/instance.hpp"
#include "instance/unhandled.hpp"
#include "storage/database.hpp"
#include "storage/instance_store.hpp"
#include "storage/portions.hpp"
#include "storage/queue_store.hpp"

namespace dovetail {
namespace {

constexpr std::chrono::hours longest_waiting{24 * 365};
constexpr std::chrono::hours longest_age{24 * 3650};
constexpr int largest_scan = 1'000'000;

void require_request(const UnhandledTopicsRequest& request) {
  if (request.waiting < std::chrono::milliseconds::zero() || request.waiting > longest_waiting) {
    throw std::out_of_range("waiting must be zero to a year");
  }
  if (request.scan_limit < 1 || request.scan_limit > largest_scan) {
    throw std::out_of_range("scan_limit must be 1 to 1000000");
  }
}

}  // namespace

std::string_view to_string(InstanceState state) {
  return state == InstanceState::draining ? "draining" : "running";
}

bool InstanceQueue::handles(std::string_view topic) const {
  return all_topics || std::ranges::binary_search(topics, topic) ||
         std::ranges::any_of(patterns,
                             [&](const std::string& each) { return core::matches(each, topic); });
}

bool InstanceInfo::handles(std::string_view queue, std::string_view topic) const {
  if (stale || state != InstanceState::running) return false;
  return std::ranges::any_of(
      queues, [&](const InstanceQueue& each) { return each.name == queue && each.handles(topic); });
}

Instances::Instances(storage::Database& database)
    : database_(&database), store_(&database.store<storage::InstanceStore>()) {}

std::vector<InstanceInfo> Instances::list() {
  std::vector<InstanceInfo> found;
  database_->read([&](storage::ReadSession& session) {
    found = store_->list(session, instance::most_instances);
  });
  return found;
}

std::vector<UnhandledTopic> Instances::unhandled_topics(const UnhandledTopicsRequest& request) {
  require_request(request);
  auto topics = instance::find_unhandled(
      *database_, database_->queue(storage::queue_names::outbox).operations, "outbox", request, {});
  auto inbox = instance::find_unhandled(
      *database_, database_->queue(storage::queue_names::inbox).operations, "inbox", request, {});
  std::ranges::move(inbox, std::back_inserter(topics));
  instance::sort_by_wait(topics);
  return topics;
}

std::size_t Instances::purge(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > longest_age) {
    throw std::out_of_range("age must be zero to ten years");
  }
  return storage::in_portions(
      *database_,
      [&](storage::WriteSession& session) { return store_->purge(session, age, storage::portion); },
      stop);
}

namespace instance {

std::vector<UnhandledTopic> unhandled(std::span<const InstanceInfo> instances,
                                      std::string_view queue,
                                      std::span<const storage::DueTopic> due) {
  std::vector<UnhandledTopic> found;
  for (const auto& each : due) {
    const auto handles = [&](const InstanceInfo& instance) {
      return instance.handles(queue, each.topic);
    };
    if (std::ranges::any_of(instances, handles)) continue;
    found.push_back({.queue = std::string{queue},
                     .topic = each.topic,
                     .seen = each.seen,
                     .oldest_wait = each.oldest_wait});
  }
  return found;
}

std::vector<UnhandledTopic> find_unhandled(storage::Database& database,
                                           storage::QueueOperator& store, std::string_view queue,
                                           const UnhandledTopicsRequest& request,
                                           const storage::ReadOptions& options) {
  std::vector<UnhandledTopic> found;
  database.read(
      [&](storage::ReadSession& session) {
        found.clear();
        const auto due = store.due_topics(session, request.waiting, request.scan_limit);
        if (!due.empty())
          found = unhandled(database.store<storage::InstanceStore>().list(session, most_instances),
                            queue, due);
      },
      options);
  return found;
}

void sort_by_wait(std::vector<UnhandledTopic>& topics) {
  std::ranges::sort(topics, [](const UnhandledTopic& a, const UnhandledTopic& b) {
    return std::tie(b.oldest_wait, a.queue, a.topic) < std::tie(a.oldest_wait, b.queue, b.topic);
  });
}

}  // namespace instance

}  // namespace dovetail
