#include <stdexcept>
#include <utility>

#include "dovetail/discovery.hpp"

namespace dovetail {
namespace {

class FunctionDiscovery final : public DatabaseDiscovery {
 public:
  explicit FunctionDiscovery(std::function<std::vector<DatabaseEntry>()> find)
      : find_(std::move(find)) {}
  std::vector<DatabaseEntry> find(const std::stop_token& /*stop*/) override { return find_(); }

 private:
  std::function<std::vector<DatabaseEntry>()> find_;
};

}  // namespace

std::shared_ptr<DatabaseDiscovery> function_discovery(
    std::function<std::vector<DatabaseEntry>()> find) {
  if (!find) throw std::invalid_argument("function_discovery: the function is empty");
  return std::make_shared<FunctionDiscovery>(std::move(find));
}

}  // namespace dovetail
