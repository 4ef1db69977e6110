#include "transport/amqp/receiver_connection.hpp"

#include <proton/message.hpp>
#include <proton/receiver_options.hpp>
#include <proton/session.hpp>
#include <stdexcept>

#include "transport/amqp/mapping.hpp"

namespace dovetail::transport::amqp {

std::vector<IncomingMessage> ReceiverConnection::receive(std::size_t most,
                                                         const TransportCall& call) {
  post([this, most] { grant(most); });
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, call.stop, call.deadline,
                      [this] { return !arrived_.empty() || lost_reason(); });
  if (lost_reason()) throw std::runtime_error(*lost_reason());
  std::vector<IncomingMessage> messages;
  while (!arrived_.empty() && messages.size() < most) {
    messages.push_back(std::move(arrived_.front()));
    arrived_.pop_front();
  }
  return messages;
}

void ReceiverConnection::settle(std::span<const std::uint64_t> tags, Outcome outcome,
                                const TransportCall& call) {
  const auto done = std::make_shared<bool>(false);
  const bool is_posted =
      post([this, done, outcome, list = std::vector<std::uint64_t>(tags.begin(), tags.end())] {
        settle_now(list, outcome);
        const std::lock_guard lock(mutex_);
        *done = true;
        changed_.notify_all();
      });
  if (!is_posted) return;  // the broker delivers them again
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, call.stop, call.deadline, [&] { return *done || lost_reason(); });
}

void ReceiverConnection::grant(std::size_t most) {
  std::size_t waiting = 0;
  {
    const std::lock_guard lock(mutex_);
    waiting = arrived_.size();
  }
  const auto held = waiting + static_cast<std::size_t>(std::max(receiver_.credit(), 0));
  if (held < most) receiver_.add_credit(static_cast<std::uint32_t>(most - held));
}

void ReceiverConnection::settle_now(const std::vector<std::uint64_t>& tags, Outcome outcome) {
  for (const auto tag : tags) {
    const auto node = deliveries_.extract(tag);
    if (node.empty()) continue;
    outcome == Outcome::accept ? node.mapped().accept() : node.mapped().release();
  }
}

void ReceiverConnection::on_ready(proton::connection& connection) {
  receiver_ = connection.open_session().open_receiver(
      address_, proton::receiver_options{}.auto_accept(false).credit_window(0).name(
                    "dovetail-" + Uuid::random().to_string()));
}

void ReceiverConnection::on_message(proton::delivery& delivery, proton::message& message) {
  auto incoming = from_amqp(message);
  incoming.tag = ++tags_;
  deliveries_.emplace(incoming.tag, delivery);
  const std::lock_guard lock(mutex_);
  arrived_.push_back(std::move(incoming));
  changed_.notify_all();
}

void ReceiverConnection::on_receiver_close(proton::receiver& receiver) {
  lose("the link to " + address_ + " has ended: " + receiver.error().what());
}

void ReceiverConnection::on_receiver_error(proton::receiver& receiver) {
  lose("the link to " + address_ + " has ended: " + receiver.error().what());
}

void ReceiverConnection::on_session_close(proton::session& session) {
  lose("the link to " + address_ + " has ended: " + session.error().what());
}

void ReceiverConnection::on_session_error(proton::session& session) {
  lose("the link to " + address_ + " has ended: " + session.error().what());
}

}  // namespace dovetail::transport::amqp
