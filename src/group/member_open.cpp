// Opens the database of a member, and registers the group's handlers with it.
#include "dovetail/error.hpp"
#include "event/component.hpp"
#include "fanout/component.hpp"
#include "group/fanout_access.hpp"
#include "group/member.hpp"
#include "storage/migrator.hpp"

namespace dovetail::group {
namespace {

/// The interval at which a caller that waits for other migrations checks whether the group stops.
constexpr std::chrono::milliseconds stop_check{20};
/// The pause of a step while another caller opens the database.
constexpr std::chrono::milliseconds open_wait{20};
/// The pause of a step while other databases are migrated.
constexpr std::chrono::milliseconds migration_wait{500};

/// The topics that this process claims. Absent: all topics.
std::optional<std::vector<std::string>> topics_of(const runtime::HandlerRegistry& handlers,
                                                  const WorkerOptions& options) {
  if (handlers.handles_all() || options.unknown_topics == UnknownTopics::abandon) {
    return std::nullopt;
  }
  return handlers.topics();
}

/// Users register handlers with the group, not with the components of a database.
void refuse_handlers(runtime::Node& node) {
  for (const auto& component : node.components()) {
    component->accept_handlers([](std::string_view, const HandlerFunction&, const HandlerOptions&) {
      throw InvalidOperation(
          "this database belongs to a group: register handlers with the PlatformGroup");
    });
  }
}

}  // namespace

PlatformOptions Member::platform_options() const {
  auto options = group_.options.database;
  if (!entry_.schema.empty()) options.schema = entry_.schema;
  options.max_connections = std::min(options.max_connections, group_.options.max_connections);
  options.worker.fetchers = 1;
  return options;
}

std::shared_ptr<Platform> Member::platform() {
  static_cast<void>(opened({}));
  const std::lock_guard lock(mutex_);
  return platform_;
}

Platform& Member::view() {
  static_cast<void>(opened({}));
  const std::lock_guard lock(mutex_);
  if (leaving_) throw InvalidOperation("the database \"" + entry_.key + "\" leaves the group");
  if (!view_) {
    view_ = std::make_shared<Platform>(runtime::PlatformAccess::platform_of(node_, true));
  }
  return *view_;
}

std::shared_ptr<Platform> Member::take_view() {
  const std::lock_guard lock(mutex_);
  return std::move(view_);
}

/// A migration has no time limit. Only a stop of the group ends it.
void Member::migrate(storage::Database& database) {
  migrates_ = true;
  const auto ended = [this] {
    migrates_ = false;
    group_.migrations.give_back();
  };
  try {
    storage::migrate(database);
  } catch (...) {
    ended();
    throw;
  }
  ended();
  needs_migration_ = false;
}

/// Steps use service connections, and do not wait for other databases. Other callers wait.
void Member::prepare_schema(storage::Database& database, const PlatformOptions& options,
                            const std::stop_token& stop) {
  const bool in_step = stop.stop_possible();
  const storage::ReadOptions reads{.service = in_step};
  if (options.deploy_schema) {
    needs_migration_ = needs_migration_ || !storage::pending_migrations(database, reads).empty();
    if (needs_migration_) {
      while (!group_.migrations.try_take_for(in_step ? std::chrono::milliseconds{0} : stop_check)) {
        if (in_step) throw TryLater{migration_wait};
        if (stopping_) throw InvalidOperation("the group is being stopped");
      }
      migrate(database);
      if (in_step) throw TryLater{};  // the time of this step may be over
    }
  }
  storage::verify_schema(database, reads);
}

std::unique_ptr<storage::Database> Member::open_database(const PlatformOptions& options,
                                                         const std::stop_token& stop) {
  auto database =
      runtime::open_database(entry_.url, options, {entry_.key, group_.budget, account_});
  const auto note = [this](storage::Database* opening) {
    const std::lock_guard lock(mutex_);
    being_opened_ = opening;  // request_stop() cancels its calls
  };
  note(database.get());
  try {
    const std::stop_callback cancel(stop, [&database] { database->cancel_calls(); });
    if (stopping_) database->cancel_calls();
    prepare_schema(*database, options, stop);
  } catch (...) {
    note(nullptr);
    throw;
  }
  note(nullptr);
  if (stop.stop_requested() || stopping_) {
    throw Error({ErrorKind::cancelled, "", "open"}, "opening the database took too long");
  }
  return database;
}

runtime::Node& Member::opened(const std::stop_token& stop) {
  std::unique_lock one_at_a_time(opening_, std::try_to_lock);
  if (!one_at_a_time) {
    if (stop.stop_possible()) throw TryLater{open_wait};
    one_at_a_time.lock();
  }
  if (const auto known = node()) return *known;
  auto options = platform_options();
  auto database = open_database(options, stop);
  auto node = std::make_shared<runtime::Node>(std::move(database), std::move(options));
  refuse_handlers(*node);
  auto platform =
      std::make_shared<Platform>(runtime::PlatformAccess::platform_of(node, /*in_group=*/true));
  const std::lock_guard lock(mutex_);
  node_ = std::move(node);
  platform_ = std::move(platform);
  return *node_;
}

/// After a failure, the next call continues where this one failed.
void Member::register_handlers(runtime::Node& node, const std::stop_token& stop) {
  if (!handlers_) {
    handlers_ = std::make_unique<runtime::NodeHandlers>(node);
    handlers_->add_all("outbox", group_.outbox_handlers);
    handlers_->add_all("inbox", group_.inbox_handlers);
    for (const auto& each : group_.subscriptions.close()) {
      node.get<event::Component>().events.subscribe(each->name, each->options, each->handler);
    }
    for (const auto& component : node.components()) {
      component->accept_handlers(
          [this](std::string_view topic, HandlerFunction function, HandlerOptions options) {
            handlers_->add("outbox", topic, std::move(function), std::move(options),
                           FanoutAccess::limit_of(group_.fanout, topic));
          });
    }
  }
  FanoutAccess::register_with(group_.fanout, node.get<fanout::Component>().fanout, entry_.key,
                              fanouts_, stop);
  refuse_handlers(node);
  topics_ = {.outbox = topics_of(handlers_->of("outbox"), node.options().worker),
             .inbox = topics_of(handlers_->of("inbox"), node.options().worker)};
}

}  // namespace dovetail::group
