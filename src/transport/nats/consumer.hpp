// Receives from a durable pull consumer of JetStream.
//
// The broker delivers what it was asked for. The first question of a call asks for what is there;
// if nothing is, the next question waits. At most one question is open.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dovetail/nats.hpp"
#include "transport/link.hpp"
#include "transport/nats/connection.hpp"
#include "transport/nats/held_messages.hpp"

namespace dovetail::transport::nats {

class NatsConsumer : public Consumer {
 public:
  NatsConsumer(std::shared_ptr<const NatsOptions> connection, NatsConsumerOptions options);

  [[nodiscard]] std::string kind() const override { return "nats"; }
  [[nodiscard]] std::string address() const override { return address_of(*connection_options_); }
  [[nodiscard]] std::vector<IncomingMessage> fetch(std::size_t most,
                                                   const TransportCall& call) override;
  void ack(std::span<const std::uint64_t> tags, const TransportCall& call) override;
  void give_back(std::span<const std::uint64_t> tags, const TransportCall& call) override;
  void close() noexcept override;

 private:
  /// What the broker was asked for and has not answered yet.
  struct Question {
    std::string reply{};      ///< The subject of its answers.
    std::size_t missing = 0;  ///< Messages that may still come.
    MonoTime until{};
    bool waits = false;  ///< Until there are messages.
  };

  void bind(const std::shared_ptr<Connection>& connection, const TransportCall& call);
  void ask_for(std::size_t count, bool waits, MonoTime deadline);
  void require_answers(MonoTime now);
  [[nodiscard]] bool is_asking() const;
  bool receive(MonoTime until, const std::stop_token& stop);
  void read(natsMsg* message);
  void read_status(const std::string& status, natsMsg* message);
  std::vector<IncomingMessage> take(std::size_t most);
  void answer(std::span<const std::uint64_t> tags, const std::string& answer,
              const TransportCall& call);

  const std::shared_ptr<const NatsOptions> connection_options_;
  const NatsConsumerOptions options_;
  std::mutex turn_;
  transport::Link<Connection> link_;
  std::shared_ptr<Connection> bound_;  ///< The connection of the fields below.
  Question question_;
  std::uint64_t last_question_ = 0;
  std::vector<IncomingMessage> arrived_;  ///< More than the caller of fetch() asked for.
  HeldMessages held_;
};

}  // namespace dovetail::transport::nats
