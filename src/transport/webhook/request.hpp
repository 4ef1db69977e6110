// One request to an endpoint, as a handle of libcurl.
#pragma once

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/transport.hpp"
#include "transport/webhook/answer.hpp"
#include "transport/webhook/endpoint.hpp"

namespace dovetail::transport::webhook {

class Request {
 public:
  /// Opens a connection and sends nothing.
  Request(const Endpoint& endpoint, std::chrono::milliseconds limit);
  /// Sends the message, which must outlive it.
  Request(const Endpoint& endpoint, std::chrono::milliseconds limit, const Message& message,
          std::string_view source);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() = default;

  [[nodiscard]] CURL* handle() const { return handle_.get(); }

  /// Why there is no connection, after the end of the transfer. Nothing: there is one.
  [[nodiscard]] std::optional<std::string> connection_problem(CURLcode code) const;
  /// After the end of the transfer.
  [[nodiscard]] PublishOutcome outcome(CURLcode code, WallTime now) const;

 private:
  void set_up(std::chrono::milliseconds limit);
  void set_message(const Message& message, std::string_view source);
  [[nodiscard]] bool is_sent() const;
  [[nodiscard]] std::string error_text(CURLcode code) const;

  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static curl_socket_t on_open_socket(void* self, curlsocktype purpose, curl_sockaddr* address);

  const Endpoint& endpoint_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> lines_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  Answer answer_;
  bool has_answer_ = false;  ///< The status and all headers have arrived.
  std::size_t body_bytes_ = 0;
  std::string refused_address_;
};

}  // namespace dovetail::transport::webhook
