#include "fanout/round_join.hpp"

#include <nlohmann/json.hpp>

#include "core/derived_id.hpp"
#include "fanout/rules.hpp"
#include "outbox/store_messages.hpp"
#include "queue/new_messages.hpp"

namespace dovetail {
namespace {

/// The payload of the message that ends a round.
std::string done_payload(const FanoutPlan& plan, JoinId join, const char* status) {
  nlohmann::ordered_json object{{"topic", plan.topic},
                                {"work_key", nullptr},
                                {"join_id", join.to_string()},
                                {"status", status}};
  if (plan.work_key) object["work_key"] = *plan.work_key;
  return object.dump();
}

}  // namespace

Fanout::RoundJoin::RoundJoin(storage::Database& database, const Outbox& outbox, const Joins& joins,
                             const FanoutPlan& plan, MessageId round)
    : database_(database),
      options_(outbox.options()),
      round_(round),
      join_(core::derived_id(round.uuid(), core::Derived::join_of_round)),
      grouping_key_(fanout::name_of(plan.topic, plan.work_key)),
      wait_{.topic = joins.options().wait_topic,
            .payload =
                to_payload(join_, {.on_complete_topic = fanout_done_topic(plan.topic),
                                   .on_complete_payload = done_payload(plan, join_, "completed"),
                                   .on_fail_topic = fanout_done_topic(plan.topic),
                                   .on_fail_payload = done_payload(plan, join_, "failed")}),
            .message_id = MessageId{core::derived_id(join_.uuid(), core::Derived::wait_of_join)}} {}

void Fanout::RoundJoin::start(storage::WriteSession& session) const {
  auto& joins = database_.store<storage::JoinStore>();
  const storage::NewJoin join{.id = join_,
                              .grouping_key = grouping_key_,
                              .expected_steps = 1,
                              .metadata = {},
                              .deadline = {}};
  if (!joins.start(session, join)) return;
  const storage::Membership round{join_, round_};
  outbox::attach(database_, session, std::span{&round, 1});
  const auto wait = database_.queue(storage::queue_names::outbox)
                        .producer.enqueue(session, queue::checked(wait_, options_));
  joins.await(session, join_, wait);
}

void Fanout::RoundJoin::attach(storage::WriteSession& session,
                               std::span<const storage::EnqueuedSlice> slices) const {
  start(session);
  std::vector<storage::Membership> members;
  members.reserve(slices.size());
  for (const auto& slice : slices) members.push_back({join_, slice.message});
  database_.store<storage::JoinStore>().grow(session, join_, static_cast<int>(slices.size()));
  outbox::attach(database_, session, members);
}

}  // namespace dovetail
