#include "dovetail/group.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "dovetail/error.hpp"
#include "event/rules.hpp"
#include "group/entries.hpp"
#include "group/state.hpp"
#include "runtime/handler_adapters.hpp"

namespace dovetail {
namespace {

constexpr std::size_t migrators = 8;
constexpr std::string_view reserved_header = "dovetail-";
/// The source of forwarded messages in the inbox.
constexpr const char* forward_source = "dovetail";

/// The id is unique among all databases of the group.
InboxRequest forwarded(const Message& message, const std::string& from, const ForwardRule& rule) {
  InboxRequest request{.topic = rule.to_topic.empty() ? rule.topic : rule.to_topic,
                       .source = forward_source,
                       .message_id = from + "/" + message.id.to_string(),
                       .payload = message.payload,
                       .correlation_id = message.correlation_id,
                       .headers = message.headers,
                       .expires_at = message.expires_at,
                       .priority = message.priority};
  std::erase_if(request.headers,
                [](const auto& header) { return header.first.starts_with(reserved_header); });
  return request;
}

GroupMigration migrated(const DatabaseEntry& entry, PlatformOptions options) {
  GroupMigration result{.key = entry.key};
  if (!entry.schema.empty()) options.schema = entry.schema;
  try {
    result.applied = Platform::migrate(entry.url, options);
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  return result;
}

}  // namespace

std::string_view to_string(GroupDatabaseState state) {
  switch (state) {
    case GroupDatabaseState::closed:
      return "closed";
    case GroupDatabaseState::idle:
      return "idle";
    case GroupDatabaseState::working:
      return "working";
    case GroupDatabaseState::failing:
      return "failing";
    case GroupDatabaseState::leaving:
      return "leaving";
  }
  return "unknown";
}

std::vector<std::string> GroupStatus::problems() const {
  std::vector<std::string> problems;
  if (discovery_failures > 0) {
    const auto since =
        discovery_failing_since ? " since " + to_string(*discovery_failing_since) : "";
    problems.push_back("the discovery fails" + since + ": " + discovery_error);
  }
  for (const auto& each : bad_entries) problems.push_back("bad entry: " + each);
  for (const auto& each : databases) {
    if (each.failures == 0) continue;
    problems.push_back("the database \"" + each.key + "\" fails: " + each.last_error);
  }
  return problems;
}

PlatformGroup::PlatformGroup(GroupOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

PlatformGroup::PlatformGroup(std::shared_ptr<DatabaseDiscovery> discovery, GroupOptions options,
                             DiscoverOptions discover)
    : PlatformGroup(std::move(options)) {
  this->discover(std::move(discovery), discover);
  static_cast<void>(state_->refresh());  // status() shows bad entries
}

PlatformGroup::PlatformGroup(PlatformGroup&&) noexcept = default;
PlatformGroup& PlatformGroup::operator=(PlatformGroup&& other) noexcept {
  if (this != &other) {
    const PlatformGroup ends_here(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
PlatformGroup::~PlatformGroup() {
  // A forked child has none of the threads, and the connections belong to the parent.
  if (state_ && !state_->process().is_current_process()) {
    [[maybe_unused]] const auto* leaked = state_.release();
  }
}

// --- the databases

void PlatformGroup::add(std::string_view key, std::string_view url, std::string_view schema) {
  state_->process().require();
  DatabaseEntry entry{std::string{key}, std::string{url}, std::string{schema}};
  group::check_entry(entry);
  state_->roster().add(std::move(entry));
}

bool PlatformGroup::remove(std::string_view key) {
  state_->process().require();
  return state_->roster().remove(key);
}

void PlatformGroup::discover(std::shared_ptr<DatabaseDiscovery> discovery,
                             DiscoverOptions options) {
  state_->process().require();
  state_->discover(std::move(discovery), options);
}

void PlatformGroup::discover(std::function<std::vector<DatabaseEntry>()> find,
                             DiscoverOptions options) {
  discover(function_discovery(std::move(find)), options);
}

void PlatformGroup::refresh() {
  state_->process().require();
  const auto complaints = state_->refresh();
  if (complaints.empty()) return;
  std::string text = "the discovery returned bad entries:";
  for (const auto& complaint : complaints) text += " " + complaint + ";";
  text.back() = '.';
  throw std::invalid_argument(text);
}

std::shared_ptr<Platform> PlatformGroup::find(std::string_view key) {
  state_->process().require();
  const auto member = state_->roster().find(key);
  return member ? member->platform() : nullptr;
}

Platform& PlatformGroup::operator[](std::string_view key) {
  state_->process().require();
  if (const auto member = state_->roster().find(key)) return member->view();
  throw InvalidOperation("the group has no database with the key \"" + std::string{key} + "\"");
}

Platform& PlatformGroup::operator[](const Uuid& key) {
  state_->process().require();
  if (const auto member = state_->roster().find(key)) return member->view();
  throw InvalidOperation("the group has no database with the key " + key.to_string());
}

std::vector<std::string> PlatformGroup::keys() const {
  state_->process().require();
  std::vector<std::string> keys;
  for (const auto& member : state_->roster().members()) keys.push_back(member->entry().key);
  return keys;
}

GroupStatus PlatformGroup::status() const {
  state_->process().require();
  return state_->status();
}

HealthService& PlatformGroup::health() {
  return state_->health();
}

std::vector<GroupMigration> PlatformGroup::migrate(
    const std::function<void(const GroupMigration&)>& report) {
  state_->process().require();
  const auto entries = state_->entries();
  std::vector<GroupMigration> results(entries.size());
  std::atomic<std::size_t> next{0};
  std::mutex reporting;
  std::exception_ptr report_failed;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(migrators, entries.size()); ++i) {
      threads.emplace_back([&] {
        for (auto index = next++; index < entries.size(); index = next++) {
          results[index] = migrated(entries[index], state_->options().database);
          const std::lock_guard lock(reporting);
          try {
            if (report) report(results[index]);
          } catch (...) {
            if (!report_failed) report_failed = std::current_exception();
          }
        }
      });
    }
  }
  if (report_failed) std::rethrow_exception(report_failed);
  return results;
}

// --- handlers

void PlatformGroup::on(std::string_view topic, HandlerFunction function, HandlerOptions options) {
  state_->add_handler(false, topic, std::move(function), std::move(options));
}

void PlatformGroup::on(std::shared_ptr<Handler> handler) {
  if (!handler) throw std::invalid_argument("handler must not be null");
  const auto topic = handler->topic();
  auto options = handler->options();
  on(topic, runtime::function_of(std::move(handler)), std::move(options));
}

void PlatformGroup::on_any(HandlerFunction function, HandlerOptions options) {
  state_->add_fallback(false, std::move(function), std::move(options));
}

void PlatformGroup::on_inbox(std::string_view topic, InboxHandlerFunction function,
                             HandlerOptions options) {
  state_->add_handler(true, topic, runtime::function_of(std::move(function)), std::move(options));
}

void PlatformGroup::on_any_inbox(InboxHandlerFunction function, HandlerOptions options) {
  state_->add_fallback(true, runtime::function_of(std::move(function)), std::move(options));
}

void PlatformGroup::subscribe(std::string_view name, SubscriptionOptions options,
                              SubscriptionHandler handler) {
  state_->subscribe(event::checked(name, std::move(options), std::move(handler)));
}

GroupFanout& PlatformGroup::fanout() {
  state_->process().require();
  return state_->fanout();
}

void PlatformGroup::forward(ForwardRule rule, HandlerOptions options) {
  if (rule.to.empty()) throw std::invalid_argument("to must be the key of a database");
  const auto topic = rule.topic;
  on(
      topic,
      [state = state_.get(), rule = std::move(rule)](const Message& message,
                                                     HandlerContext& context) {
        const auto member = state->roster().find(rule.to);
        if (!member) {
          throw std::runtime_error("the group has no database \"" + rule.to + "\" to forward to");
        }
        const auto request = forwarded(message, context.database(), rule);
        // The inbox of the same database takes part in the handler's transaction.
        if (context.database() == rule.to) {
          member->platform()->inbox().enqueue(context.transaction(), request);
        } else {
          member->platform()->inbox().enqueue(request);
        }
      },
      std::move(options));
}

// --- background services

void PlatformGroup::start() {
  state_->start();
}

bool PlatformGroup::stop(std::optional<std::chrono::milliseconds> deadline) {
  return state_->stop(deadline);
}

std::shared_ptr<const Sample> PlatformGroup::sample(std::chrono::milliseconds max_age) const {
  state_->process().require();
  return state_->sampler().get(max_age);
}

MetricsSnapshot PlatformGroup::metrics() const {
  const auto* registry =
      dynamic_cast<const MetricsRegistry*>(state_->options().database.metrics.get());
  return registry != nullptr ? registry->snapshot() : MetricsSnapshot{};
}

}  // namespace dovetail
