#include "server/http/wire.hpp"

#include <array>
#include <ctime>

#include "server/problem.hpp"

namespace dovetail::server::http {
namespace {

void append_header(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ");
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < ' ' || byte == 0x7F ? ' ' : c;
  }
  text += "\r\n";
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  const auto size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

}  // namespace

std::string bytes_of(const Response& response, const WireForm& form) {
  std::string text =
      "HTTP/1.1 " + std::to_string(response.status) + " " + title_of(response.status) + "\r\n";
  append_header(text, "Date", http_date());
  const bool may_have_body = response.status != 204 && response.status != 304;
  if (may_have_body) {
    if (!response.content_type.empty()) append_header(text, "Content-Type", response.content_type);
    if (!form.without_length)
      append_header(text, "Content-Length", std::to_string(response.body.size()));
  }
  for (const auto& [name, value] : response.headers) append_header(text, name, value);
  append_header(text, "Connection", form.keep_alive ? "keep-alive" : "close");
  text += "\r\n";
  if (may_have_body && !form.without_body) text += response.body;
  return text;
}

}  // namespace dovetail::server::http
