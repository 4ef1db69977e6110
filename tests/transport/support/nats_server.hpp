// A nats-server with JetStream for one test.
#pragma once

#include <chrono>
#include <fstream>
#include <string>

#include "dovetail/nats.hpp"
#include "nlohmann/json.hpp"
#include "transport/nats/connection.hpp"
#include "transport/support/broker_process.hpp"
#include "transport/support/calls.hpp"

namespace dovetail::testing {

class NatsServer {
 public:
  /// `extra` is appended to the configuration.
  explicit NatsServer(const std::string& extra = {}, bool jet_stream = true) {
    std::ofstream config{process_.folder() / "nats.conf"};
    config << "listen: 127.0.0.1:" << port_ << "\nmax_payload: 8MB\n";
    if (jet_stream) {
      config << "jetstream { store_dir: \"" << (process_.folder() / "store").string()
             << "\", max_mem: 256MB, max_file: 1GB }\n";
    }
    config << extra << "\n";
    config.close();
    start();
  }

  void start() {
    process_.start({.words = {"nats-server", "-c", (process_.folder() / "nats.conf").string()}},
                   port_);
  }
  void kill() { process_.kill(); }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const {
    return "nats://127.0.0.1:" + std::to_string(port_) + "/";
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return process_.folder(); }

  /// Asks the JetStream API, as the user of the options.
  nlohmann::json ask(const std::string& subject, const nlohmann::json& body = {}) {
    transport::nats::Connection connection(admin_, admin_.urls.front());
    const auto deadline = MonoTime::clock::now() + std::chrono::seconds{10};
    return nlohmann::json::parse(
        connection.ask("$JS.API." + subject, body.is_null() ? "" : body.dump(), deadline));
  }
  void use_admin(NatsOptions options) { admin_ = std::move(options); }

  /// Creates a stream. `more` are further settings of it.
  void add_stream(const std::string& name, const std::string& subjects,
                  const nlohmann::json& more = nlohmann::json::object()) {
    nlohmann::json config{{"name", name},
                          {"subjects", {subjects}},
                          {"storage", "file"},
                          {"retention", "limits"},
                          {"num_replicas", 1}};
    config.update(more);
    const auto answer = ask("STREAM.CREATE." + name, config);
    if (answer.contains("error")) throw std::runtime_error(answer.dump());
  }
  std::uint64_t messages_in(const std::string& stream) {
    return ask("STREAM.INFO." + stream)["state"]["messages"].get<std::uint64_t>();
  }

 private:
  BrokerProcess process_;
  int port_ = free_port();
  NatsOptions admin_{.urls = {url()}};
};

}  // namespace dovetail::testing
