#include "support/http_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <system_error>
#include <utility>

namespace dovetail::testing {
namespace {

constexpr std::chrono::milliseconds answer_patience{60'000};

void parse_head(const std::string& head, HttpAnswer& answer) {
  std::istringstream lines{head};
  std::string line;
  std::getline(lines, line);
  answer.status = line.size() > 9 ? std::atoi(line.c_str() + 9) : 0;
  while (std::getline(lines, line)) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    auto name = line.substr(0, colon);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    answer.headers.emplace(name, line.substr(colon + 2, line.find('\r') - colon - 2));
  }
}

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpClient::HttpClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket_ < 0 ||
      ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    if (socket_ >= 0) ::close(socket_);
    throw std::system_error(error, std::generic_category(), "connect");
  }
}

HttpClient::~HttpClient() {
  if (socket_ >= 0) ::close(socket_);
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), read_(std::move(other.read_)) {}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool HttpClient::read_more(std::chrono::milliseconds patience) {
  pollfd watched{socket_, POLLIN, 0};
  if (::poll(&watched, 1, static_cast<int>(patience.count())) <= 0) return false;
  std::array<char, 16 << 10> bytes{};
  const auto size = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (size <= 0) return false;
  read_.append(bytes.data(), static_cast<std::size_t>(size));
  return true;
}

HttpAnswer HttpClient::receive(bool to_head) {
  return receive_within(answer_patience, to_head);
}

HttpAnswer HttpClient::receive_within(std::chrono::milliseconds patience, bool to_head) {
  HttpAnswer answer;
  while (read_.find("\r\n\r\n") == std::string::npos) {
    if (!read_more(patience)) return answer;
  }
  const auto end = read_.find("\r\n\r\n") + 4;
  parse_head(read_.substr(0, end), answer);
  read_.erase(0, end);
  if (to_head || answer.status == 204 || answer.status < 200) return answer;
  const auto size = static_cast<std::size_t>(std::atol(answer.header("content-length").c_str()));
  while (read_.size() < size && read_more(patience)) {
  }
  answer.body = read_.substr(0, size);
  read_.erase(0, size);
  return answer;
}

std::string HttpClient::receive_until(std::string_view text, std::chrono::seconds patience) {
  while (read_.find(text) == std::string::npos && read_more(patience)) {
  }
  return std::exchange(read_, {});
}

bool HttpClient::is_closed_by_peer(std::chrono::seconds patience) {
  pollfd watched{socket_, POLLIN, 0};
  std::array<char, 4 << 10> bytes{};
  while (::poll(&watched, 1, static_cast<int>(patience.count()) * 1'000) > 0) {
    if (::recv(socket_, bytes.data(), bytes.size(), 0) <= 0) return true;
  }
  return false;
}

HttpAnswer HttpClient::ask(const std::string& method, const std::string& target,
                           const std::vector<std::string>& lines, const std::string& body) {
  std::string text = method + " " + target + " HTTP/1.1\r\n";
  const bool has_host =
      std::ranges::any_of(lines, [](const std::string& line) { return line.starts_with("Host:"); });
  if (!has_host) text += "Host: localhost\r\n";
  for (const auto& line : lines) text += line + "\r\n";
  if (!body.empty() || method == "POST") {
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  send(text + "\r\n" + body);
  return receive(method == "HEAD");
}

}  // namespace dovetail::testing
