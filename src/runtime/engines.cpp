#include "runtime/engines.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace dovetail::runtime {
namespace {

bool takes(const storage::Engine& engine, std::string_view scheme) {
  for (auto rest = engine.schemes; !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    if (rest.substr(0, comma) == scheme) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

/// `postgresql:, postgres:` for `postgresql,postgres`.
std::string with_colons(std::string_view schemes) {
  std::string text;
  for (const char c : schemes) text += c == ',' ? std::string{":, "} : std::string{c};
  return text + ":";
}

/// Shows how to write a path that has no scheme. Other text is not shown: it may contain a
/// password.
std::string suggestion(std::string_view url) {
  if (url.empty() || url.find_first_of(":=@") != std::string_view::npos) {
    return ", such as sqlite:orders.db or postgresql://localhost/orders";
  }
  return "; for the file write sqlite:" + std::string{url};
}

}  // namespace

const storage::Engine& engine_for(std::string_view url) {
  const auto scheme = url.substr(0, std::min(url.find(':'), url.size()));
  std::string known;
  for (const auto* engine : engines()) {
    if (takes(*engine, scheme)) return *engine;
    known += (known.empty() ? "" : ", ") + with_colons(engine->schemes);
  }
  throw std::invalid_argument("a database URL starts with one of " + known + suggestion(url));
}

std::unique_ptr<storage::Database> open_database(std::string_view url,
                                                 storage::DatabaseOptions options) {
  return engine_for(url).open(url, std::move(options));
}

}  // namespace dovetail::runtime
