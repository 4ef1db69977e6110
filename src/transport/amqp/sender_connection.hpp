// A connection that sends messages, each to its address, and collects their outcomes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <proton/message.hpp>
#include <proton/sender.hpp>
#include <string>
#include <vector>

#include "transport/amqp/connection.hpp"

namespace dovetail::transport::amqp {

struct Outgoing {
  std::string address{};
  proton::message message{};
  std::size_t payload_bytes = 0;
};

class SenderConnection final : public Connection {
 public:
  using Connection::Connection;
  ~SenderConnection() override { end(); }

  /// Sends the messages, and waits for their outcomes.
  [[nodiscard]] std::vector<PublishOutcome> send(std::vector<Outgoing> messages,
                                                 const TransportCall& call);
  /// The broker grants no credit, and messages waited for it.
  [[nodiscard]] bool is_starved() const;

 private:
  /// The messages of one call. All members are under the mutex.
  struct Batch {
    std::vector<PublishOutcome> outcomes{};
    std::size_t missing = 0;
    std::size_t unsent = 0;
    bool is_over = false;  ///< Nobody waits for it any more.
  };
  struct Item {
    std::shared_ptr<Batch> batch{};
    std::size_t index = 0;
    std::shared_ptr<Outgoing> message{};
  };
  /// A link to one address, with a session of its own: some brokers end the session of a link that
  /// they refuse.
  struct Lane {
    proton::sender sender{};
    std::deque<Item> waiting{};
  };
  struct InFlight {
    std::string address{};
    Item item{};
  };

  // The thread of the connection calls these.
  void enqueue(const std::vector<Item>& items);
  Lane& lane_of(const std::string& address);
  void pump(const std::string& address, Lane& lane);
  void send_item(const std::string& address, Lane& lane, Item item);
  void pump(const proton::sender& sender);
  void settle(std::uint64_t number, PublishOutcome outcome);
  void finish(const Item& item, PublishOutcome outcome);
  /// The link has ended: its messages are rejected.
  void fail_lane(const std::string& address, const std::string& reason);
  void fail_lanes_of(const proton::session& session, const std::string& reason);

  void on_ready(proton::connection& connection) override;
  void on_sendable(proton::sender& sender) override;
  void on_sender_close(proton::sender& sender) override;
  void on_sender_error(proton::sender& sender) override;
  void on_session_close(proton::session& session) override;
  void on_session_error(proton::session& session) override;
  void on_tracker_accept(proton::tracker& tracker) override;
  void on_tracker_reject(proton::tracker& tracker) override;
  void on_tracker_release(proton::tracker& tracker) override;

  // Of the thread of the connection.
  proton::connection own_;
  std::map<std::string, Lane> lanes_;
  std::map<std::uint64_t, InFlight> in_flight_;
  std::uint64_t last_number_ = 0;

  bool is_starved_ = false;  ///< Under the mutex.
};

}  // namespace dovetail::transport::amqp
