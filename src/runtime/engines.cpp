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

}  // namespace

const storage::Engine& engine_for(std::string_view url) {
  const auto scheme = url.substr(0, std::min(url.find(':'), url.size()));
  std::string known;
  for (const auto* engine : engines()) {
    if (takes(*engine, scheme)) return *engine;
    known += (known.empty() ? "" : ", ") + std::string{engine->schemes};
  }
  throw std::invalid_argument("a database URL starts with one of: " + known +
                              " (then a colon), such as sqlite:orders.db or postgresql://localhost/orders");
}

std::unique_ptr<storage::Database> open_database(std::string_view url, storage::DatabaseOptions options) {
  return engine_for(url).open(url, std::move(options));
}

}  // namespace dovetail::runtime
