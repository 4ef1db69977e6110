// Brokers of AMQP 1.0 for tests: RabbitMQ with its plugin, and one that does what a test says.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dovetail/server.hpp"
#include "support/backend.hpp"

namespace dovetail::testing {

/// A RabbitMQ in a temporary folder, on free ports of loopback. It has the durable queues `orders`,
/// `many`, `fair`, `again`, `survivors`, and `small`, which takes one message. The user guest has
/// the password guest.
class AmqpBroker {
 public:
  AmqpBroker();
  ~AmqpBroker();
  AmqpBroker(const AmqpBroker&) = delete;
  AmqpBroker& operator=(const AmqpBroker&) = delete;

  void start();
  /// Ends it with SIGKILL. Its durable queues survive.
  void kill();

  [[nodiscard]] std::string url() const;
  /// With TLS; the certificate is of localhost.
  [[nodiscard]] std::string tls_url(const std::string& host) const;
  [[nodiscard]] const ServerTls& tls() const { return tls_; }

 private:
  void configure();

  TemporaryDirectory folder_;
  ServerTls tls_;
  int port_;
  int tls_port_;
  int epmd_port_;
  int distribution_port_;
  pid_t process_ = 0;
};

/// A broker that answers each message as the test says.
class ScriptedBroker {
 public:
  enum class Answer { accept, reject, release, modify, nothing, close_link };
  struct Script {
    int credit = 100;
    std::uint64_t max_message_bytes = 0;  ///< Zero: no limit.
    /// The answer to the message with this body.
    std::function<Answer(const std::string& body)> answer = [](const std::string&) {
      return Answer::accept;
    };
  };

  explicit ScriptedBroker(Script script);
  ~ScriptedBroker();
  ScriptedBroker(const ScriptedBroker&) = delete;
  ScriptedBroker& operator=(const ScriptedBroker&) = delete;

  [[nodiscard]] std::string url() const;
  /// The bodies of all messages up to now.
  [[nodiscard]] std::vector<std::string> received() const;
  /// Grants credit to all links.
  void grant(int credit);

 private:
  class Handler;
  std::unique_ptr<Handler> handler_;
};

}  // namespace dovetail::testing
