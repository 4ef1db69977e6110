#include "transport/kafka/library.hpp"

#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace dovetail::transport::kafka {
namespace {

constexpr std::string_view kafka_scheme = "kafka://";
constexpr std::string_view kafka_tls_scheme = "kafka+tls://";

bool has_tls(const std::string& url) {
  return url.starts_with(kafka_tls_scheme);
}

std::string password_of(const KafkaOptions& options) {
  if (options.password_file.empty()) return options.password;
  std::ifstream in{options.password_file, std::ios::binary};
  if (!in) throw std::runtime_error("password_file: cannot read " + options.password_file);
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

/// librdkafka writes to standard error otherwise. Its errors reach us through its calls.
void ignore_log(const rd_kafka_t* /*handle*/, int /*level*/, const char* /*facility*/,
                const char* /*text*/) {}

void set_sasl(rd_kafka_conf_t* conf, const KafkaOptions& options) {
  const bool has_sasl = !options.user.empty();
  const bool is_secure = has_tls(options.url);
  set_property(conf, "security.protocol",
               std::string{has_sasl ? "sasl_" : ""} + (is_secure ? "ssl" : "plaintext"));
  if (!has_sasl) return;
  set_property(conf, "sasl.mechanism", options.sasl_mechanism);
  set_property(conf, "sasl.username", options.user);
  set_property(conf, "sasl.password", password_of(options));
}

}  // namespace

std::string servers_in(const std::string& url) {
  const auto scheme = has_tls(url) ? kafka_tls_scheme : kafka_scheme;
  auto servers = url.starts_with(scheme) ? url.substr(scheme.size()) : std::string{};
  if (servers.ends_with('/')) servers.pop_back();
  if (servers.empty() || servers.find_first_of("/?#@ \t\r\n") != std::string::npos) {
    throw std::invalid_argument(
        "url must be kafka://HOST[:PORT][,HOST[:PORT]…] or kafka+tls://…, without a user");
  }
  return servers;
}

std::string shown_url(const KafkaOptions& options) {
  return std::string{has_tls(options.url) ? kafka_tls_scheme : kafka_scheme} +
         servers_in(options.url);
}

void set_property(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
  std::array<char, 512> error{};
  const auto result =
      rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error.data(), error.size());
  if (result == RD_KAFKA_CONF_OK) return;
  const bool is_secret = name.find("password") != std::string::npos;
  throw std::invalid_argument("the property " + name + " of Kafka is not accepted" +
                              (is_secret ? "" : std::string{": "} + error.data()));
}

Owned<rd_kafka_conf_t> configuration(const KafkaOptions& options) {
  Owned<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  set_property(conf.get(), "client.id", "dovetail");
  for (const auto& [name, value] : options.properties) set_property(conf.get(), name, value);
  set_property(conf.get(), "bootstrap.servers", servers_in(options.url));
  set_sasl(conf.get(), options);
  if (!options.ca_file.empty()) set_property(conf.get(), "ssl.ca.location", options.ca_file);
  rd_kafka_conf_set_log_cb(conf.get(), &ignore_log);
  return conf;
}

Owned<rd_kafka_t> make_handle(rd_kafka_type_t type, Owned<rd_kafka_conf_t> conf) {
  std::array<char, 512> error{};
  Owned<rd_kafka_t> handle(rd_kafka_new(type, conf.get(), error.data(), error.size()));
  if (!handle) throw std::runtime_error(std::string{"Kafka: "} + error.data());
  static_cast<void>(conf.release());  // the handle has it now
  return handle;
}

}  // namespace dovetail::transport::kafka
