// A small HTTP client on raw sockets, which can also break the rules.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::testing {

struct HttpAnswer {
  int status = 0;  ///< Zero: the connection ended without an answer.
  std::multimap<std::string, std::string> headers{};  ///< Names in lower case.
  std::string body{};

  /// The first header of this name; empty if there is none.
  [[nodiscard]] std::string header(const std::string& name) const;
};

/// A connection to a port of the loopback interface.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  HttpClient(HttpClient&& other) noexcept;

  /// Sends bytes. Returns false when the peer has closed the connection.
  bool send(std::string_view bytes);
  /// Reads one answer. Those to HEAD have no body.
  HttpAnswer receive(bool to_head = false);
  /// The same, with less patience.
  HttpAnswer receive_within(std::chrono::milliseconds patience, bool to_head = false);
  /// Reads until `text` has arrived, and returns all that was read since the last call. Gives up
  /// when the connection ends or nothing arrives for `patience`.
  std::string receive_until(std::string_view text,
                            std::chrono::seconds patience = std::chrono::seconds{30});
  /// Waits until the peer closes the connection. Returns false after `patience`.
  bool is_closed_by_peer(std::chrono::seconds patience = std::chrono::seconds{30});

  /// `lines`: further headers. Host is sent unless they contain one.
  HttpAnswer ask(const std::string& method, const std::string& target,
                 const std::vector<std::string>& lines = {}, const std::string& body = {});
  HttpAnswer get(const std::string& target, const std::vector<std::string>& lines = {}) {
    return ask("GET", target, lines);
  }

 private:
  /// Returns false at the end of the connection, or after `patience`.
  bool read_more(std::chrono::milliseconds patience);

  int socket_;
  std::string read_;
};

/// One request with a connection of its own.
inline HttpAnswer http_get(std::uint16_t port, const std::string& target,
                           const std::vector<std::string>& lines = {}) {
  return HttpClient(port).get(target, lines);
}

}  // namespace dovetail::testing
