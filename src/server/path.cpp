#include "server/path.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"

namespace dovetail::server {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// `plus_is_space`: in a query, as forms encode it.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  if (!core::utf8_length(decoded)) return std::nullopt;
  return decoded;
}

/// Removes `http://host:port` from the target, and returns `host:port`.
std::optional<std::string> take_authority(std::string_view& target) {
  const auto scheme = target.find("://");
  if (target.starts_with("/") || scheme == std::string_view::npos) return std::nullopt;
  target.remove_prefix(scheme + 3);
  const auto end = std::min(target.find_first_of("/?#"), target.size());
  const std::string authority{target.substr(0, end)};
  target = end == target.size() ? "/" : target.substr(end);
  return authority;
}

/// Calls `take` for each part. Returns false when it does.
template <class Take>
bool for_each_part(std::string_view text, char separator, const Take& take) {
  while (!text.empty()) {
    const auto end = text.find(separator);
    if (!take(text.substr(0, end))) return false;
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return true;
}

bool add_query(std::string_view text, std::multimap<std::string, std::string>& query) {
  return for_each_part(text, '&', [&](std::string_view part) {
    if (part.empty()) return true;
    const auto equals = part.find('=');
    auto name = percent_decoded(part.substr(0, equals), true);
    auto value = equals == std::string_view::npos ? std::optional{std::string{}}
                                                  : percent_decoded(part.substr(equals + 1), true);
    if (!name || !value) return false;
    query.emplace(*std::move(name), *std::move(value));
    return true;
  });
}

}  // namespace

std::optional<Target> parse_target(std::string_view target) {
  auto authority = take_authority(target);
  if (!target.starts_with("/")) return std::nullopt;
  target = target.substr(0, target.find('#'));
  const auto question = target.find('?');
  Target parsed{.authority = std::move(authority)};
  if (question != std::string_view::npos && !add_query(target.substr(question + 1), parsed.query))
    return std::nullopt;
  const bool good = for_each_part(target.substr(1, question - 1), '/', [&](std::string_view part) {
    auto segment = percent_decoded(part, false);
    if (!segment) return false;
    parsed.segments.push_back(*std::move(segment));
    return true;
  });
  return good ? std::optional{std::move(parsed)} : std::nullopt;
}

std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  if (path.starts_with("/")) path.remove_prefix(1);
  for_each_part(path, '/', [&](std::string_view part) {
    segments.emplace_back(part);
    return true;
  });
  return segments;
}

}  // namespace dovetail::server
