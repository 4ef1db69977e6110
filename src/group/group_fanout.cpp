#include <deque>
#include <mutex>
#include <set>
#include <stdexcept>

#include "dovetail/error.hpp"
#include "dovetail/group.hpp"
#include "fanout/rules.hpp"
#include "group/fanout_access.hpp"

namespace dovetail {

struct GroupFanout::Registrations {
  struct Added {
    FanoutRequest request;
    GroupFanoutPlanner planner;
  };
  struct Handled {
    std::string topic;
    std::string work_key;
    FanoutHandlerFunction function;
    HandlerOptions options;
  };

  void require_open() const {
    if (closed) throw InvalidOperation("the group has been started: add fan-outs before");
  }
  void require_new(const std::string& name) {
    if (!names.insert(name).second) throw InvalidOperation(name + " was registered before");
  }

  std::mutex mutex;
  bool closed = false;
  std::set<std::string> names;
  std::vector<Added> added;
  std::deque<Handled> handled;
};

GroupFanout::GroupFanout() : registrations_(std::make_unique<Registrations>()) {}
GroupFanout::~GroupFanout() = default;

void GroupFanout::add(const FanoutRequest& request, GroupFanoutPlanner planner) {
  fanout::require_request(request);
  if (!planner) {
    if (!request.work_key) {
      throw std::invalid_argument("a fan-out without a planner needs a work_key");
    }
    planner = [](const std::string& database, const FanoutPlan&) {
      return FanoutCandidates{{FanoutCandidate{.shard_key = database}}};
    };
  }
  const std::lock_guard lock(registrations_->mutex);
  registrations_->require_open();
  registrations_->require_new("the fan-out " + request.topic + " " +
                              request.work_key.value_or("(all work keys)"));
  registrations_->added.push_back({request, std::move(planner)});
}

void GroupFanout::on(std::string_view topic, std::string_view work_key,
                     FanoutHandlerFunction function, HandlerOptions options) {
  fanout::require_topic(topic);
  fanout::require_work_key(work_key);
  if (!function) throw std::invalid_argument("handler must not be empty");
  const std::lock_guard lock(registrations_->mutex);
  registrations_->require_open();
  registrations_->require_new("the handler of " + fanout_topic(topic, work_key));
  registrations_->handled.push_back(
      {std::string{topic}, std::string{work_key}, std::move(function), std::move(options)});
}

void group::FanoutAccess::close(GroupFanout& fanouts) {
  const std::lock_guard lock(fanouts.registrations_->mutex);
  fanouts.registrations_->closed = true;
}

const void* group::FanoutAccess::limit_of(const GroupFanout& fanouts, std::string_view topic) {
  for (const auto& each : fanouts.registrations_->handled) {
    if (fanout_topic(each.topic, each.work_key) == topic) return &each;
  }
  return nullptr;
}

void group::FanoutAccess::register_with(const GroupFanout& fanouts, Fanout& fanout,
                                        const std::string& database, std::size_t& done,
                                        const std::stop_token& stop) {
  const auto& handled = fanouts.registrations_->handled;
  const auto& added = fanouts.registrations_->added;
  for (; done < handled.size(); ++done) {
    const auto& each = handled[done];
    fanout.on(each.topic, each.work_key, each.function, each.options);
  }
  for (; done < handled.size() + added.size(); ++done) {
    const auto& each = added[done - handled.size()];
    fanout.add(
        each.request,
        [planner = each.planner, database](const FanoutPlan& plan) {
          return planner(database, plan);
        },
        stop);
  }
}

}  // namespace dovetail
