#include "transport/support/amqp_broker.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <proton/condition.h>
#include <proton/delivery.h>
#include <proton/link.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <proton/binary.hpp>
#include <proton/connection.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/listen_handler.hpp>
#include <proton/listener.hpp>
#include <proton/message.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <proton/target.hpp>
#include <proton/target_options.hpp>
#include <proton/work_queue.hpp>
#include <stdexcept>
#include <thread>

#include "support/certificate.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

sockaddr_in loopback_at(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int unused_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback_at(0);
  socklen_t length = sizeof address;
  const bool found = ::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(listener);
  if (!found) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

bool accepts_connections(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback_at(port);
  const bool connected =
      ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return connected;
}

nlohmann::json queue_named(const std::string& name, const nlohmann::json& arguments) {
  return {{"name", name},
          {"vhost", "/"},
          {"durable", true},
          {"auto_delete", false},
          {"arguments", arguments}};
}

nlohmann::json definitions() {
  nlohmann::json all;
  all["users"] = {{{"name", "guest"}, {"password", "guest"}, {"tags", "administrator"}}};
  all["vhosts"] = {{{"name", "/"}}};
  all["permissions"] = {
      {{"user", "guest"}, {"vhost", "/"}, {"configure", ".*"}, {"write", ".*"}, {"read", ".*"}}};
  all["queues"] = {queue_named("small", {{"x-max-length", 1}, {"x-overflow", "reject-publish"}})};
  for (const auto* name : {"orders", "many", "fair", "again", "survivors"})
    all["queues"].push_back(queue_named(name, nlohmann::json::object()));
  return all;
}

}  // namespace

AmqpBroker::AmqpBroker()
    : tls_(make_certificate(folder_.path(), "broker")),
      port_(unused_port()),
      tls_port_(unused_port()),
      epmd_port_(unused_port()),
      distribution_port_(unused_port()) {
  configure();
  start();
}

AmqpBroker::~AmqpBroker() {
  kill();
}

void AmqpBroker::configure() {
  const auto& folder = folder_.path();
  std::ofstream{folder / "definitions.json"} << definitions().dump();
  std::ofstream{folder / "plugins"} << "[rabbitmq_amqp1_0].\n";
  std::ofstream{folder / "rabbitmq.conf"}
      << "listeners.tcp.1 = 127.0.0.1:" << port_ << "\nlisteners.ssl.1 = 127.0.0.1:" << tls_port_
      << "\nssl_options.certfile = " << tls_.certificate_file
      << "\nssl_options.keyfile = " << tls_.key_file
      << "\nload_definitions = " << (folder / "definitions.json").string()
      << "\nlog.console = true\nlog.file = false\n"
      // Anonymous clients are guests by default.
      << "amqp1_0.default_user = none\n";
}

void AmqpBroker::start() {
  const auto folder = folder_.path().string();
  const auto script =
      "export HOME=" + folder + " ERL_EPMD_PORT=" + std::to_string(epmd_port_) +
      " ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODENAME=test" + std::to_string(port_) +
      "@localhost RABBITMQ_CONFIG_FILE=" + folder +
      "/rabbitmq.conf RABBITMQ_MNESIA_BASE=" + folder + "/mnesia RABBITMQ_LOG_BASE=" + folder +
      "/log RABBITMQ_ENABLED_PLUGINS_FILE=" + folder +
      "/plugins RABBITMQ_DIST_PORT=" + std::to_string(distribution_port_) +
      " RABBITMQ_PID_FILE=" + folder +
      "/pid RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'\n"
      "epmd &\nexec /usr/lib/rabbitmq/bin/rabbitmq-server";
  process_ = ::fork();
  if (process_ == 0) {
    ::setpgid(0, 0);  // with all its children: kill() ends the group
    const int file =
        ::open((folder + "/output").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    ::_exit(127);
  }
  const auto ended = [this] { return ::waitpid(process_, nullptr, WNOHANG) != 0; };
  const bool started = eventually([&] { return accepts_connections(tls_port_) || ended(); },
                                  std::chrono::seconds{90});
  if (started && accepts_connections(port_)) return;
  std::ifstream output{folder + "/output"};
  throw std::runtime_error("RabbitMQ did not start: " +
                           std::string{std::istreambuf_iterator<char>{output}, {}});
}

void AmqpBroker::kill() {
  if (process_ == 0) return;
  ::kill(-process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = 0;
  eventually([this] { return !accepts_connections(port_); });
}

std::string AmqpBroker::url() const {
  return "amqp1://127.0.0.1:" + std::to_string(port_);
}

std::string AmqpBroker::tls_url(const std::string& host) const {
  return "amqp1s://" + host + ":" + std::to_string(tls_port_);
}

// --- the scripted broker

class ScriptedBroker::Handler : public proton::messaging_handler {
 public:
  explicit Handler(Script script) : script_(std::move(script)), container_(*this) {
    auto listening = port_promise_.get_future();
    thread_ = std::thread([this] { container_.run(); });
    port_ = listening.get();
  }
  ~Handler() override {
    container_.stop();
    thread_.join();
  }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::vector<std::string> received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }
  void grant(int credit) {
    const std::lock_guard lock(mutex_);
    for (auto& receiver : receivers_) {
      receiver.work_queue().add([receiver, credit]() mutable {
        receiver.add_credit(static_cast<std::uint32_t>(credit));
      });
    }
  }

 private:
  struct Listening : proton::listen_handler {
    std::promise<int>* port = nullptr;
    proton::connection_options on_accept(proton::listener&) override {
      return proton::connection_options{}.sasl_allowed_mechs("ANONYMOUS");
    }
    void on_open(proton::listener& listener) override { port->set_value(listener.port()); }
  };
  struct LinkAccess : proton::receiver {
    explicit LinkAccess(const proton::receiver& given) : proton::receiver(given) {}
    [[nodiscard]] pn_link_t* get() const { return pn_object(); }
  };
  struct DeliveryAccess : proton::delivery {
    explicit DeliveryAccess(const proton::delivery& given) : proton::delivery(given) {}
    [[nodiscard]] pn_delivery_t* get() const { return pn_object(); }
  };

  void on_container_start(proton::container& container) override {
    listening_.port = &port_promise_;
    container.listen("//127.0.0.1:0", listening_);
  }

  /// Clients end without saying so.
  void on_error(const proton::error_condition& /*error*/) override {}

  void on_receiver_open(proton::receiver& receiver) override {
    if (receiver.active()) return;
    if (script_.max_message_bytes > 0)
      pn_link_set_max_message_size(LinkAccess(receiver).get(), script_.max_message_bytes);
    receiver.open(proton::receiver_options{}.credit_window(0).auto_accept(false).target(
        proton::target_options{}.address(receiver.target().address())));
    if (script_.credit > 0) receiver.add_credit(static_cast<std::uint32_t>(script_.credit));
    const std::lock_guard lock(mutex_);
    receivers_.push_back(receiver);
  }

  void on_message(proton::delivery& delivery, proton::message& message) override {
    const auto bytes = proton::get<proton::binary>(message.body());
    const std::string body(bytes.begin(), bytes.end());
    {
      const std::lock_guard lock(mutex_);
      received_.push_back(body);
    }
    switch (script_.answer(body)) {
      case Answer::accept:
        return delivery.accept();
      case Answer::reject:
        return reject(delivery);
      case Answer::release:
        return delivery.release();
      case Answer::modify:
        return delivery.modify();
      case Answer::close_link:
        return delivery.receiver().close({"amqp:not-allowed", "go away"});
      case Answer::nothing:
        return;
    }
  }

  static void reject(const proton::delivery& delivery) {
    auto* const handle = DeliveryAccess(delivery).get();
    auto* const condition = pn_disposition_condition(pn_delivery_local(handle));
    pn_condition_set_name(condition, "amqp:precondition-failed");
    pn_condition_set_description(condition, "the queue is full");
    pn_delivery_update(handle, PN_REJECTED);
    pn_delivery_settle(handle);
  }

  Script script_;
  Listening listening_;
  std::promise<int> port_promise_;
  proton::container container_;
  std::thread thread_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> received_;
  std::vector<proton::receiver> receivers_;
};

ScriptedBroker::ScriptedBroker(Script script)
    : handler_(std::make_unique<Handler>(std::move(script))) {}

ScriptedBroker::~ScriptedBroker() = default;

std::string ScriptedBroker::url() const {
  return "amqp1://127.0.0.1:" + std::to_string(handler_->port());
}

std::vector<std::string> ScriptedBroker::received() const {
  return handler_->received();
}

void ScriptedBroker::grant(int credit) {
  handler_->grant(credit);
}

}  // namespace dovetail::testing
