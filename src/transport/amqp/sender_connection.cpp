#include "transport/amqp/sender_connection.hpp"

#include <proton/condition.h>
#include <proton/delivery.h>
#include <proton/link.h>
#include <proton/binary.hpp>
#include <proton/sender_options.hpp>
#include <proton/session.hpp>
#include <proton/tracker.hpp>
#include <set>

namespace dovetail::transport::amqp {
namespace {

/// The largest size of a message besides its payload: the outbox limits headers to 16 KiB.
constexpr std::uint64_t most_besides_payload = std::uint64_t{64} << 10;

/// The C++ interface of the library does not show these.
struct TrackerAccess : proton::tracker {
  explicit TrackerAccess(const proton::tracker& given) : proton::tracker(given) {}
  [[nodiscard]] pn_condition_t* condition() const {
    return pn_disposition_condition(pn_delivery_remote(pn_object()));
  }
};
struct SenderAccess : proton::sender {
  explicit SenderAccess(const proton::sender& given) : proton::sender(given) {}
  [[nodiscard]] std::uint64_t most_bytes() const {
    return pn_link_remote_max_message_size(pn_object());
  }
};

std::string or_empty(const char* text) {
  return text == nullptr ? std::string{} : std::string{text};
}

/// Conditions that a retry does not change.
bool is_final(const std::string& condition) {
  static const std::set<std::string> final_ones{"amqp:link:message-size-exceeded",
                                                "amqp:decode-error", "amqp:invalid-field"};
  return final_ones.contains(condition);
}

PublishOutcome rejection_of(const proton::tracker& tracker) {
  const TrackerAccess access(tracker);
  auto* const condition = access.condition();
  const auto name = or_empty(pn_condition_get_name(condition));
  const auto description = or_empty(pn_condition_get_description(condition));
  std::string reason = "the broker rejected the message";
  if (!name.empty()) reason += ": " + name;
  if (!description.empty()) reason += ": " + description;
  return {.result = is_final(name) ? PublishResult::refused : PublishResult::rejected,
          .reason = reason};
}

std::uint64_t number_of(const proton::tracker& tracker) {
  const auto tag = tracker.tag();
  std::uint64_t number = 0;
  for (const auto byte : tag) number = number << 8U | byte;
  return number;
}

proton::binary tag_of(std::uint64_t number) {
  proton::binary tag;
  for (int shift = 56; shift >= 0; shift -= 8)
    tag.push_back(static_cast<std::uint8_t>(number >> static_cast<unsigned>(shift)));
  return tag;
}

std::string words_of_link(const proton::error_condition& error, const char* otherwise) {
  return error.empty() ? otherwise : error.what();
}

}  // namespace

std::vector<PublishOutcome> SenderConnection::send(std::vector<Outgoing> messages,
                                                   const TransportCall& call) {
  const auto batch = std::make_shared<Batch>();
  batch->outcomes.resize(messages.size());
  batch->missing = batch->unsent = messages.size();
  std::vector<Item> items;
  for (std::size_t i = 0; i < messages.size(); ++i)
    items.push_back({batch, i, std::make_shared<Outgoing>(std::move(messages[i]))});
  const bool is_posted = post([this, items] { enqueue(items); });
  items.clear();

  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, call.stop, call.deadline,
                      [&] { return batch->missing == 0 || lost_reason() || !is_posted; });
  batch->is_over = true;
  is_starved_ = !lost_reason() && is_posted && batch->unsent > 0 && !call.stop.stop_requested();
  for (auto& outcome : batch->outcomes) {
    if (outcome.result != PublishResult::unavailable || !outcome.reason.empty()) continue;
    outcome.reason = lost_reason().value_or("the broker gave no outcome in time");
  }
  return batch->outcomes;
}

bool SenderConnection::is_starved() const {
  const std::lock_guard lock(mutex_);
  return is_starved_;
}

void SenderConnection::on_ready(proton::connection& connection) {
  own_ = connection;
}

void SenderConnection::enqueue(const std::vector<Item>& items) {
  std::set<std::string> addresses;
  for (const auto& item : items) {
    lane_of(item.message->address).waiting.push_back(item);
    addresses.insert(item.message->address);
  }
  for (const auto& address : addresses) pump(address, lane_of(address));
}

SenderConnection::Lane& SenderConnection::lane_of(const std::string& address) {
  auto& lane = lanes_[address];
  if (!lane.sender) {
    auto session = own_.open_session();
    lane.sender = session.open_sender(
        address, proton::sender_options{}.name("dovetail-" + Uuid::random().to_string()));
  }
  return lane;
}

void SenderConnection::pump(const std::string& address, Lane& lane) {
  while (!lane.waiting.empty()) {
    {
      const std::lock_guard lock(mutex_);
      while (!lane.waiting.empty() && lane.waiting.front().batch->is_over) lane.waiting.pop_front();
    }
    if (lane.waiting.empty() || lane.sender.credit() <= 0) return;
    auto item = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    send_item(address, lane, std::move(item));
  }
}

void SenderConnection::send_item(const std::string& address, Lane& lane, Item item) {
  {
    const std::lock_guard lock(mutex_);
    --item.batch->unsent;
  }
  const auto most = SenderAccess(lane.sender).most_bytes();
  const bool may_be_too_large =
      most > 0 && item.message->payload_bytes + most_besides_payload > most;
  if (may_be_too_large && item.message->message.encode().size() > most) {
    return finish(item, {.result = PublishResult::refused,
                         .reason = "the message is larger than the broker allows: " +
                                   std::to_string(most) + " bytes"});
  }
  const auto number = ++last_number_;
  lane.sender.send(item.message->message, tag_of(number));
  item.message.reset();
  in_flight_.emplace(number, InFlight{address, std::move(item)});
}

void SenderConnection::on_sendable(proton::sender& sender) {
  {
    const std::lock_guard lock(mutex_);
    is_starved_ = false;
  }
  for (auto& [address, lane] : lanes_) {
    if (lane.sender == sender) return pump(address, lane);
  }
}

void SenderConnection::settle(std::uint64_t number, PublishOutcome outcome) {
  const auto node = in_flight_.extract(number);
  if (!node.empty()) finish(node.mapped().item, std::move(outcome));
}

void SenderConnection::finish(const Item& item, PublishOutcome outcome) {
  const std::lock_guard lock(mutex_);
  if (item.batch->is_over) return;
  item.batch->outcomes[item.index] = std::move(outcome);
  if (--item.batch->missing == 0) changed_.notify_all();
}

void SenderConnection::on_tracker_accept(proton::tracker& tracker) {
  settle(number_of(tracker), {.result = PublishResult::confirmed});
}

void SenderConnection::on_tracker_reject(proton::tracker& tracker) {
  settle(number_of(tracker), rejection_of(tracker));
}

void SenderConnection::on_tracker_release(proton::tracker& tracker) {
  settle(number_of(tracker), {.result = PublishResult::rejected,
                              .reason = "the broker released the message: no queue took it"});
}

void SenderConnection::fail_lane(const std::string& address, const std::string& reason) {
  const auto node = lanes_.extract(address);
  if (node.empty()) return;
  const PublishOutcome outcome{.result = PublishResult::rejected,
                               .reason = "the link to " + address + " has ended: " + reason};
  for (const auto& item : node.mapped().waiting) {
    {
      const std::lock_guard lock(mutex_);
      --item.batch->unsent;
      is_starved_ = false;
    }
    finish(item, outcome);
  }
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, sent] : in_flight_) {
    if (sent.address == address) numbers.push_back(number);
  }
  for (const auto number : numbers) settle(number, outcome);
}

void SenderConnection::fail_lanes_of(const proton::session& session, const std::string& reason) {
  std::vector<std::string> addresses;
  for (const auto& [address, lane] : lanes_) {
    if (lane.sender.session() == session) addresses.push_back(address);
  }
  for (const auto& address : addresses) fail_lane(address, reason);
}

void SenderConnection::on_sender_close(proton::sender& sender) {
  fail_lanes_of(sender.session(), words_of_link(sender.error(), "the broker closed it"));
}

void SenderConnection::on_sender_error(proton::sender& sender) {
  fail_lanes_of(sender.session(), words_of_link(sender.error(), "the broker closed it"));
}

void SenderConnection::on_session_close(proton::session& session) {
  fail_lanes_of(session, words_of_link(session.error(), "the broker closed the session"));
}

void SenderConnection::on_session_error(proton::session& session) {
  fail_lanes_of(session, words_of_link(session.error(), "the broker closed the session"));
}

}  // namespace dovetail::transport::amqp
