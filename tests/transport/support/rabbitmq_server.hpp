// A RabbitMQ server for tests, with listeners for TCP and TLS. It takes seconds to start, so the
// tests of a suite share one.
#pragma once

#include <fstream>
#include <map>
#include <string>

#include "dovetail/rabbitmq.hpp"
#include "support/certificate.hpp"
#include "transport/rabbitmq/login.hpp"
#include "transport/support/broker_process.hpp"
#include "transport/support/calls.hpp"

namespace dovetail::testing {

class RabbitMqServer {
 public:
  RabbitMqServer() : files_(make_certificate(process_.folder(), "server")) {
    std::ofstream{process_.folder() / "enabled_plugins"} << "[].\n";
    std::ofstream{process_.folder() / "rabbitmq.conf"}
        << "listeners.tcp.1 = 127.0.0.1:" << port_ << "\nlisteners.ssl.1 = 127.0.0.1:" << tls_port_
        << "\nssl_options.certfile = " << files_.certificate_file
        << "\nssl_options.keyfile = " << files_.key_file
        << "\nmax_message_size = 4000000\ndisk_free_limit.absolute = 1MB\n"
        << "log.console = true\nlog.console.level = warning\nlog.file = false\n";
    // Erlang's name service would stay after the end of the test if the server started it.
    names_.start({.words = {"epmd", "-address", "127.0.0.1", "-port", std::to_string(names_port_)}},
                 names_port_);
    start();
  }

  void start() {
    process_.start({.words = {"/usr/lib/rabbitmq/bin/rabbitmq-server"}, .environment = settings()},
                   port_);
  }
  void kill() {
    // The broker holds the declaration of a new queue in memory for a moment.
    control({"eval", "mnesia:sync_log()."});
    process_.kill();
  }
  /// Runs rabbitmqctl.
  void control(const std::vector<std::string>& words) {
    std::vector<std::string> command{"env"};
    for (const auto& [name, value] : settings()) command.push_back(name + "=" + value);
    command.emplace_back("/usr/lib/rabbitmq/bin/rabbitmqctl");
    command.insert(command.end(), words.begin(), words.end());
    const auto result = run_command(command);
    if (result.code != 0) throw std::runtime_error(result.out + result.err);
  }

  [[nodiscard]] std::string url() const {
    return "amqp://127.0.0.1:" + std::to_string(port_) + "/%2F";
  }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int tls_port() const { return tls_port_; }
  [[nodiscard]] const std::string& certificate() const { return files_.certificate_file; }

  /// Creates a durable queue with arguments, which are texts or numbers.
  void add_queue(const std::string& name, const std::map<std::string, std::string>& texts = {},
                 const std::map<std::string, int>& numbers = {}) const {
    using namespace transport::rabbitmq;
    const auto state = log_in({.urls = {url()}}, url());
    std::vector<amqp_table_entry_t> entries;
    for (const auto& [key, value] : texts) {
      amqp_table_entry_t entry{};
      entry.key = bytes_of(key);
      entry.value.kind = AMQP_FIELD_KIND_UTF8;
      entry.value.value.bytes = bytes_of(value);
      entries.push_back(entry);
    }
    for (const auto& [key, value] : numbers) {
      amqp_table_entry_t entry{};
      entry.key = bytes_of(key);
      entry.value.kind = AMQP_FIELD_KIND_I32;
      entry.value.value.i32 = value;
      entries.push_back(entry);
    }
    amqp_queue_declare(
        state.get(), channel, bytes_of(name), 0, 1, 0, 0,
        {.num_entries = static_cast<int>(entries.size()), .entries = entries.data()});
    require_reply(amqp_get_rpc_reply(state.get()), "declare");
  }
  void delete_queue(const std::string& name) const {
    using namespace transport::rabbitmq;
    const auto state = log_in({.urls = {url()}}, url());
    amqp_queue_delete(state.get(), channel, bytes_of(name), 0, 0);
    require_reply(amqp_get_rpc_reply(state.get()), "delete");
  }
  /// The messages that are ready in the queue.
  [[nodiscard]] int messages_in(const std::string& name) const {
    using namespace transport::rabbitmq;
    const auto state = log_in({.urls = {url()}}, url());
    const auto* answer =
        amqp_queue_declare(state.get(), channel, bytes_of(name), 1, 1, 0, 0, amqp_empty_table);
    require_reply(amqp_get_rpc_reply(state.get()), "look");
    return static_cast<int>(answer->message_count);
  }

 private:
  [[nodiscard]] std::map<std::string, std::string> settings() const {
    const auto folder = process_.folder().string();
    return {{"HOME", folder},
            {"ERL_EPMD_PORT", std::to_string(names_port_)},
            {"ERL_EPMD_ADDRESS", "127.0.0.1"},
            {"RABBITMQ_NODENAME", "test" + std::to_string(port_) + "@localhost"},
            {"RABBITMQ_DIST_PORT", std::to_string(dist_port_)},
            {"RABBITMQ_MNESIA_BASE", folder + "/data"},
            {"RABBITMQ_LOG_BASE", folder + "/log"},
            {"RABBITMQ_LOGS", "-"},
            {"RABBITMQ_ENABLED_PLUGINS_FILE", folder + "/enabled_plugins"},
            {"RABBITMQ_CONFIG_FILE", folder + "/rabbitmq.conf"},
            {"RABBITMQ_CONF_ENV_FILE", folder + "/none"},
            // The script becomes the server, instead of starting it as a child.
            {"RABBITMQ_ALLOW_INPUT", "1"},
            {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
             "-noinput -kernel inet_dist_use_interface {127,0,0,1}"}};
  }

  BrokerProcess names_;
  BrokerProcess process_;
  ServerTls files_;
  int port_ = free_port();
  int tls_port_ = free_port();
  int names_port_ = free_port();
  int dist_port_ = free_port();
};

/// A suite of tests with a server.
class RabbitMqTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared() = std::make_unique<RabbitMqServer>(); }
  static void TearDownTestSuite() { shared().reset(); }

  RabbitMqServer& server = *shared();

 private:
  static std::unique_ptr<RabbitMqServer>& shared() {
    static std::unique_ptr<RabbitMqServer> server;
    return server;
  }
};

}  // namespace dovetail::testing
