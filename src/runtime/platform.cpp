#include "dovetail/platform.hpp"

#include <atomic>
#include <mutex>

#include "coordinator/component.hpp"
#include "dovetail/error.hpp"
#include "event/component.hpp"
#include "fanout/component.hpp"
#include "inbox/component.hpp"
#include "instance/component.hpp"
#include "join/component.hpp"
#include "lease/component.hpp"
#include "observe/sampler.hpp"
#include "operation/component.hpp"
#include "outbox/component.hpp"
#include "runtime/engines.hpp"
#include "runtime/handler_adapters.hpp"
#include "runtime/health.hpp"
#include "runtime/node_sample.hpp"
#include "runtime/open.hpp"
#include "runtime/runtime.hpp"
#include "schedule/component.hpp"
#include "storage/migrator.hpp"

namespace dovetail {
namespace {

std::vector<SchemaChange> described(storage::Database& database,
                                    const std::vector<storage::Migration>& migrations) {
  std::vector<SchemaChange> changes;
  changes.reserve(migrations.size());
  for (const auto& migration : migrations) {
    changes.push_back({migration.number, std::string{migration.name},
                       database.store<storage::MigrationStore>().script(migration)});
  }
  return changes;
}

std::shared_ptr<Clock> clock_of(const runtime::Node& node) {
  return node.options().clock ? node.options().clock : system_clock();
}

}  // namespace

struct Platform::State {
  explicit State(std::shared_ptr<runtime::Node> its_node, bool in_group)
      : kept_node(std::move(its_node)),
        own_runtime(in_group ? nullptr : std::make_unique<runtime::Runtime>(*kept_node)),
        health(std::make_unique<runtime::PlatformHealth>([this] { return shared_node(); },
                                                         own_runtime.get()),
               kept_node->options().health, clock_of(*kept_node)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] runtime::Node& node() const { return *shared_node(); }

  [[nodiscard]] const std::shared_ptr<runtime::Node>& shared_node() const {
    if (!retired) return kept_node;
    throw InvalidOperation(
        "this database has left its group, or was replaced: ask the PlatformGroup for the key "
        "again");
  }

  [[nodiscard]] runtime::Runtime& runtime() {
    if (own_runtime) return *own_runtime;
    throw InvalidOperation(
        "this database belongs to a group: register handlers with the PlatformGroup, and start and "
        "stop that");
  }

  std::shared_ptr<runtime::Node> kept_node;       // null: retired long ago
  std::atomic<bool> retired{false};               // the database has left its group
  std::unique_ptr<runtime::Runtime> own_runtime;  // absent: the database belongs to a group
  HealthService health;                           // destroyed first: it uses the others

  [[nodiscard]] observe::Sampler& sampler() {
    const std::lock_guard lock(sampler_mutex);
    if (!own_sampler) {
      own_sampler = std::make_unique<observe::Sampler>(
          [source = runtime::sample_source(kept_node)] { return std::vector{source}; },
          kept_node->options().clock ? kept_node->options().clock : system_clock(),
          kept_node->metrics());
    }
    return *own_sampler;
  }

  std::mutex sampler_mutex;
  std::unique_ptr<observe::Sampler> own_sampler;  // last: its thread ends before the node
};

Platform runtime::PlatformAccess::platform_of(std::shared_ptr<Node> node, bool in_group) {
  return Platform{std::make_unique<Platform::State>(std::move(node), in_group)};
}

runtime::Runtime& runtime::PlatformAccess::runtime_of(const Platform& platform) {
  return platform.state_->runtime();
}

void runtime::PlatformAccess::retire(Platform& platform) {
  if (platform.state_) platform.state_->retired = true;
}

std::shared_ptr<runtime::Node> runtime::PlatformAccess::take_node(Platform& platform) {
  return platform.state_ ? std::move(platform.state_->kept_node) : nullptr;
}

Platform Platform::open(std::string_view url, PlatformOptions options) {
  return runtime::PlatformAccess::platform_of(runtime::open_node(url, std::move(options)), false);
}

std::vector<SchemaChange> Platform::migrate(std::string_view url, const PlatformOptions& options) {
  const auto database = runtime::open_database(url, options);
  return described(*database, storage::migrate(*database));
}

std::vector<SchemaChange> Platform::pending_changes(std::string_view url,
                                                    const PlatformOptions& options) {
  const auto database = runtime::open_database(url, options);
  return described(*database, storage::pending_migrations(*database));
}

std::string Platform::grants(std::string_view url, std::string_view role, RolePurpose purpose,
                             const PlatformOptions& options) {
  if (role.empty() || role.find('\0') != std::string_view::npos) {
    throw std::invalid_argument("role must not be empty and must not contain NUL");
  }
  const auto& engine = runtime::engine_for(url);
  if (engine.grants == nullptr) return {};
  return engine.grants({.schema = options.schema,
                        .role = std::string{role},
                        .purpose = purpose == RolePurpose::worker
                                       ? storage::GrantPurpose::worker
                                       : storage::GrantPurpose::producer});
}

Platform::Platform(std::unique_ptr<State> state) : state_(std::move(state)) {}
Platform::Platform(Platform&&) noexcept = default;
Platform& Platform::operator=(Platform&& other) noexcept {
  if (this != &other) {
    const Platform ends_here(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
Platform::~Platform() {
  if (!state_) return;
  if (!state_->kept_node) return;
  if (!state_->kept_node->process().is_current_process()) {
    // A forked child has none of the threads, and the connections belong to the parent. So it
    // closes nothing.
    [[maybe_unused]] const auto* leaked = state_.release();
    return;
  }
  if (!state_->own_runtime) return;
  // The remaining handlers may wait for a database that does not answer.
  if (!stop()) state_->kept_node->database().cancel_calls();
}

// --- handlers

void Platform::on(std::string_view topic, HandlerFunction function, HandlerOptions options) {
  state_->runtime().add_handler("outbox", topic, std::move(function), std::move(options));
}

void Platform::on(std::shared_ptr<Handler> handler) {
  if (!handler) throw std::invalid_argument("handler must not be null");
  const auto topic = handler->topic();
  auto options = handler->options();
  on(topic, runtime::function_of(std::move(handler)), std::move(options));
}

void Platform::on_any(HandlerFunction function, HandlerOptions options) {
  state_->runtime().add_fallback("outbox", std::move(function), std::move(options));
}

void Platform::on_inbox(std::string_view topic, InboxHandlerFunction function,
                        HandlerOptions options) {
  state_->runtime().add_handler("inbox", topic, runtime::function_of(std::move(function)),
                                std::move(options));
}

void Platform::on_any_inbox(InboxHandlerFunction function, HandlerOptions options) {
  state_->runtime().add_fallback("inbox", runtime::function_of(std::move(function)),
                                 std::move(options));
}

// --- background services

void Platform::start() {
  state_->runtime().start();
}

bool Platform::stop(std::optional<std::chrono::milliseconds> deadline) {
  return state_->runtime().stop(deadline);
}

// --- components

Transaction Platform::begin() {
  return Transaction{state_->node().database().begin()};
}
Outbox& Platform::outbox() {
  return state_->node().get<outbox::Component>().outbox;
}
Inbox& Platform::inbox() {
  return state_->node().get<inbox::Component>().inbox;
}
Joins& Platform::joins() {
  return state_->node().get<join::Component>().joins;
}
Leases& Platform::leases() {
  return state_->node().get<lease::Component>().leases;
}
Timers& Platform::timers() {
  return state_->node().get<schedule::Component>().timers;
}
Jobs& Platform::jobs() {
  return state_->node().get<schedule::Component>().jobs;
}
Fanout& Platform::fanout() {
  return state_->node().get<fanout::Component>().fanout;
}
Events& Platform::events() {
  return state_->node().get<event::Component>().events;
}
Instances& Platform::instances() {
  return state_->node().get<instance::Component>().instances;
}
WorkBatches& Platform::work() {
  return state_->node().get<coordinator::Component>().batches;
}
Audit& Platform::audit() {
  return state_->node().get<operation::Component>().audit;
}
Replays& Platform::replays() {
  return state_->node().get<operation::Component>().replays;
}
History& Platform::history() {
  return state_->node().get<history::Component>().history;
}
const std::string& Platform::name() const {
  return state_->node().database().name();
}

HealthService& Platform::health() {
  return state_->health;
}

std::shared_ptr<const Sample> Platform::sample(std::chrono::milliseconds max_age) const {
  state_->node().process().require();
  return state_->sampler().get(max_age);
}

MetricsSnapshot Platform::metrics() const {
  const auto* registry =
      dynamic_cast<const MetricsRegistry*>(state_->node().options().metrics.get());
  return registry != nullptr ? registry->snapshot() : MetricsSnapshot{};
}

}  // namespace dovetail
