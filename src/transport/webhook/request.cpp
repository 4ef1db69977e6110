#include "transport/webhook/request.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "dovetail/version.hpp"
#include "transport/webhook/message_headers.hpp"

namespace dovetail::transport::webhook {
namespace {

constexpr std::size_t most_of_body_kept = 1 << 10;
constexpr std::size_t most_of_body_read = 64 << 10;
constexpr int first_final_status = 200;

template <class Value>
void set_option(CURL* handle, CURLoption option, Value value) {
  const auto code = curl_easy_setopt(handle, option, value);
  if (code != CURLE_OK) throw std::runtime_error(curl_easy_strerror(code));
}

/// For libcurl, `name;` is a header with an empty value.
std::string line_of(const std::string& name, const std::string& value) {
  return value.empty() ? name + ";" : name + ": " + value;
}

Headers all_headers(const Endpoint& endpoint, const Message& message, std::string_view source) {
  const auto now = std::chrono::system_clock::now();
  const auto [id, timestamp, signature] =
      sign_webhook(message.id.to_string(), std::chrono::floor<std::chrono::microseconds>(now),
                   message.payload, endpoint.secrets);
  auto headers = message_headers(message, source);
  headers.emplace("webhook-id", id);
  headers.emplace("webhook-timestamp", timestamp);
  headers.emplace("webhook-signature", signature);
  return headers;
}

/// Also when an earlier connection was used first, and had ended.
bool is_connection_failure(CURLcode code) {
  constexpr std::array failures{CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,
                                CURLE_SSL_CONNECT_ERROR,    CURLE_PEER_FAILED_VERIFICATION,
                                CURLE_SSL_CACERT_BADFILE,   CURLE_SSL_CERTPROBLEM};
  return std::ranges::find(failures, code) != failures.end();
}

bool is_header(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), line.begin(),
                    [](char wanted, char given) { return wanted == (given | 0x20); });
}

}  // namespace

Request::Request(const Endpoint& endpoint, std::chrono::milliseconds limit)
    : endpoint_(endpoint),
      handle_(curl_easy_init(), &curl_easy_cleanup),
      lines_(nullptr, &curl_slist_free_all) {
  set_up(limit);
  set_option(handle(), CURLOPT_CONNECT_ONLY, 1L);
}

Request::Request(const Endpoint& endpoint, std::chrono::milliseconds limit, const Message& message,
                 std::string_view source)
    : endpoint_(endpoint),
      handle_(curl_easy_init(), &curl_easy_cleanup),
      lines_(nullptr, &curl_slist_free_all) {
  set_up(limit);
  set_message(message, source);
}

void Request::set_up(std::chrono::milliseconds limit) {
  if (!handle_) throw std::runtime_error("libcurl could not be initialised");
  CURL* const curl = handle();
  const auto agent = "dovetail/" + std::string{version()};
  set_option(curl, CURLOPT_PRIVATE, static_cast<void*>(this));
  set_option(curl, CURLOPT_URL, endpoint_.url.c_str());
  set_option(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  set_option(curl, CURLOPT_FOLLOWLOCATION, 0L);
  set_option(curl, CURLOPT_PROXY, "");  // also none of the environment
  set_option(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set_option(curl, CURLOPT_NOSIGNAL, 1L);
  set_option(curl, CURLOPT_USERAGENT, agent.c_str());
  set_option(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set_option(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set_option(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  set_option(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!endpoint_.ca_file.empty()) set_option(curl, CURLOPT_CAINFO, endpoint_.ca_file.c_str());
  set_option(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<std::int64_t>(limit.count(), 1)));
  set_option(curl, CURLOPT_ERRORBUFFER, error_.data());
  set_option(curl, CURLOPT_OPENSOCKETFUNCTION, &Request::on_open_socket);
  set_option(curl, CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
  set_option(curl, CURLOPT_WRITEFUNCTION, &Request::on_body);
  set_option(curl, CURLOPT_WRITEDATA, static_cast<void*>(this));
  set_option(curl, CURLOPT_HEADERFUNCTION, &Request::on_header);
  set_option(curl, CURLOPT_HEADERDATA, static_cast<void*>(this));
}

void Request::set_message(const Message& message, std::string_view source) {
  const auto add = [this](const std::string& line) {
    auto* const lines = curl_slist_append(lines_.get(), line.c_str());
    if (lines == nullptr) throw std::bad_alloc();
    static_cast<void>(lines_.release());
    lines_.reset(lines);
  };
  for (const auto& [name, value] : all_headers(endpoint_, message, source))
    add(line_of(name, value));
  add("Expect:");  // without a round trip before large bodies
  set_option(handle(), CURLOPT_HTTPHEADER, lines_.get());
  set_option(handle(), CURLOPT_POST, 1L);
  set_option(handle(), CURLOPT_POSTFIELDSIZE_LARGE,
             static_cast<curl_off_t>(message.payload.size()));
  set_option(handle(), CURLOPT_POSTFIELDS, message.payload.data());
}

/// Called with the address that the connection is about to use: nothing is resolved later.
curl_socket_t Request::on_open_socket(void* self, curlsocktype /*purpose*/,
                                      curl_sockaddr* address) {
  auto& request = *static_cast<Request*>(self);
  const auto found = address_of(address->addr);
  if (!found || !request.endpoint_.rules.allows(*found)) {
    request.refused_address_ = found ? to_text(*found) : "of another kind";
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

std::size_t Request::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& request = *static_cast<Request*>(self);
  const auto bytes = size * count;
  auto& kept = request.answer_.body;
  kept.append(data, std::min(bytes, most_of_body_kept - kept.size()));
  request.body_bytes_ += bytes;
  return request.body_bytes_ > most_of_body_read ? 0 : bytes;  // 0 ends the transfer
}

std::size_t Request::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  auto& request = *static_cast<Request*>(self);
  std::string_view line{data, size * count};
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  constexpr std::string_view wanted = "retry-after";
  if (is_header(line, wanted)) request.answer_.retry_after = line.substr(wanted.size() + 1);
  if (line.empty()) {
    long status = 0;
    curl_easy_getinfo(request.handle(), CURLINFO_RESPONSE_CODE, &status);
    request.answer_.status = static_cast<int>(status);
    request.has_answer_ = status >= first_final_status;  // after 100 another one follows
  }
  return size * count;
}

bool Request::is_sent() const {
  curl_off_t before_transfer = 0;
  curl_easy_getinfo(handle(), CURLINFO_PRETRANSFER_TIME_T, &before_transfer);
  return before_transfer > 0;
}

std::string Request::error_text(CURLcode code) const {
  return excerpt(error_[0] != '\0' ? error_.data() : curl_easy_strerror(code));
}

std::optional<std::string> Request::connection_problem(CURLcode code) const {
  if (code == CURLE_OK || (is_sent() && !is_connection_failure(code))) return std::nullopt;
  if (!refused_address_.empty()) {
    return endpoint_.shown + " has the address " + refused_address_ +
           ", which is not public, and allowed_networks does not contain it";
  }
  return "no connection to " + endpoint_.shown + ": " + error_text(code);
}

PublishOutcome Request::outcome(CURLcode code, WallTime now) const {
  if (has_answer_) return outcome_of(answer_, now);
  if (auto problem = connection_problem(code))
    return {.result = PublishResult::unavailable, .reason = *std::move(problem)};
  return {.result = PublishResult::rejected,
          .reason = "no answer from " + endpoint_.shown + ": " + error_text(code)};
}

}  // namespace dovetail::transport::webhook
