#include "transport/nats/held_messages.hpp"

#include <algorithm>

namespace dovetail::transport::nats {
namespace {

/// A message that is held longer is not kept: its receiver has forgotten it.
constexpr std::chrono::minutes longest_hold{30};

}  // namespace

HeldMessages::HeldMessages() : keeper_([this](const std::stop_token& stop) { keep_alive(stop); }) {}

void HeldMessages::use(const std::shared_ptr<Connection>& connection,
                       std::chrono::milliseconds ack_wait) {
  std::shared_ptr<Connection> ended = connection;
  std::lock_guard lock(mutex_);
  connection_.swap(ended);
  interval_ = std::max(ack_wait / 3, std::chrono::milliseconds{20});
  held_.clear();
  changed_.notify_all();
}

std::uint64_t HeldMessages::add(std::string reply) {
  std::lock_guard lock(mutex_);
  held_.emplace(++last_tag_, Held{std::move(reply), MonoTime::clock::now()});
  return last_tag_;
}

std::shared_ptr<Connection> HeldMessages::answer(std::span<const std::uint64_t> tags,
                                                 const std::string& answer) {
  std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto tag : tags) {
    const auto held = held_.extract(tag);
    if (!held || !connection_) continue;
    any = true;
    require(natsConnection_PublishString(connection_->get(), held.mapped().reply.c_str(),
                                         answer.c_str()),
            "the answer for a message");
  }
  return any ? connection_ : nullptr;
}

void HeldMessages::clear() {
  std::shared_ptr<Connection> ended;
  std::lock_guard lock(mutex_);
  connection_.swap(ended);
  held_.clear();
}

std::vector<std::string> HeldMessages::due_replies(MonoTime now) {
  std::vector<std::string> replies;
  for (const auto& [tag, held] : held_) {
    const auto age = now - held.since;
    if (age >= interval_ && age < longest_hold) replies.push_back(held.reply);
  }
  return replies;
}

void HeldMessages::keep_alive(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto interval = interval_;
    changed_.wait_for(lock, stop, interval, [&] { return interval_ != interval; });
    const auto connection = connection_;
    const auto replies = due_replies(MonoTime::clock::now());
    if (!connection || replies.empty()) continue;
    lock.unlock();
    // A lost connection is the business of the next fetch().
    for (const auto& reply : replies) {
      natsConnection_PublishString(connection->get(), reply.c_str(), "+WPI");
    }
    lock.lock();
  }
}

}  // namespace dovetail::transport::nats
