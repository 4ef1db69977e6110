#include <chrono>

#include "config/section.hpp"

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t server_kib = 1 << 10;
constexpr std::int64_t server_mib = 1 << 20;
constexpr std::int64_t most_connections = 100'000;

void add_limits(Section& server) {
  const auto field = [](auto member) {
    return within(&Settings::server, &ServerOptions::limits, member);
  };
  server.size("max_header_bytes", {server_kib, server_mib}, field(&ServerLimits::max_header_bytes),
              "Largest request line and headers");
  server.size("max_body_bytes", {server_kib, 64 * server_mib}, field(&ServerLimits::max_body_bytes),
              "Largest body of a request");
  server.number("max_bodies", {1, 10'000}, field(&ServerLimits::max_bodies),
                "Bodies that are received at the same time");
  server.number("max_connections", {10, most_connections}, field(&ServerLimits::max_connections),
                "Open connections");
  server.number("max_connections_per_address", {1, most_connections},
                field(&ServerLimits::max_connections_per_address),
                "Open connections of one address");
  server.number("max_waiting_requests", {1, most_connections},
                field(&ServerLimits::max_waiting_requests), "Requests that wait for a thread");
  server.number("max_event_streams", {1, most_connections}, field(&ServerLimits::max_event_streams),
                "Streams of live events");
  server.duration("header_timeout", 10ms, 1h, field(&ServerLimits::header_timeout),
                  "Limit for a complete header");
  server.duration("body_timeout", 10ms, 1h, field(&ServerLimits::body_timeout),
                  "Limit for a complete body");
  server.duration("reply_timeout", 10ms, 1h, field(&ServerLimits::reply_timeout),
                  "Limit for the answer of a handler");
  server.duration("write_timeout", 10ms, 1h, field(&ServerLimits::write_timeout),
                  "Limit for the client to receive an answer");
  server.duration("idle_timeout", 10ms, 1h, field(&ServerLimits::idle_timeout),
                  "Time between two requests of a connection");
}

}  // namespace

void add_server(Table& table) {
  const auto field = [](auto member) { return within(&Settings::server, member); };
  Section server(table, "server");
  server.text("address", field(&ServerOptions::address), "The IP address to listen on");
  server.number("port", {0, 65'535}, field(&ServerOptions::port),
                "The port to listen on; 0: a free one");
  server.number("threads", {1, 64}, field(&ServerOptions::threads),
                "Threads that answer requests, besides those of health");
  server.text("base_path", field(&ServerOptions::base_path),
              "The path under which a reverse proxy shows the server, such as /dovetail");
  server
      .list("allowed_hosts", field(&ServerOptions::allowed_hosts),
            "Names that the Host header may have, besides IP addresses and localhost; * for all")
      .reloadable = true;
  auto& certificate =
      server.path("tls_certificate",
                  within(&Settings::server, &ServerOptions::tls, &ServerTls::certificate_file),
                  "The certificate and its chain, in PEM format: serves HTTPS; turning TLS on "
                  "or off needs a restart");
  certificate.reloadable = true;
  auto& key =
      server.path("tls_key", within(&Settings::server, &ServerOptions::tls, &ServerTls::key_file),
                  "The file with the key of the certificate, in PEM format, not encrypted");
  key.reloadable = true;
  server.list("redact", field(&ServerOptions::redact),
              "Keys of JSON payloads and headers whose values the API hides");
  server.boolean("secure_cookies", field(&ServerOptions::secure_cookies),
                 "A reverse proxy answers with HTTPS: cookies are marked as Secure");
  server.boolean(
      "read_only", field(&ServerOptions::read_only),
      "Open the database for reading only: refuse changes, run no timers, jobs and joins");
  server.duration("event_interval", 100ms, 1min, field(&ServerOptions::event_interval),
                  "Interval of live events");
  add_limits(server);
}

}  // namespace dovetail::config
