// The stores of one database, found by their types, and its queues, found by their names.
//
// An engine adds its stores when it is constructed. Lookups read a short list and take no lock:
// components look their stores up once and keep the references.
#pragma once

#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "dovetail/error.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::storage {

class Registry {
 public:
  /// Adds a store under the interface `Store`. The engine keeps it alive.
  template <class Store>
  void add(Store& store) {
    stores_.emplace_back(std::type_index{typeid(Store)}, &store);
  }

  void add_queue(std::string_view name, const QueueStore& queue) {
    queues_.emplace_back(std::string{name}, queue);
  }

  /// Throws InvalidOperation when the engine has no such store.
  template <class Store>
  [[nodiscard]] Store& store() const {
    for (const auto& [type, store] : stores_) {
      if (type == std::type_index{typeid(Store)}) return *static_cast<Store*>(store);
    }
    throw InvalidOperation(std::string{"this database has no "} + typeid(Store).name());
  }

  /// Throws InvalidOperation when the engine has no queue of this name.
  [[nodiscard]] const QueueStore& queue(std::string_view name) const {
    for (const auto& [known, queue] : queues_) {
      if (known == name) return queue;
    }
    throw InvalidOperation("this database has no queue " + std::string{name});
  }

 private:
  std::vector<std::pair<std::type_index, void*>> stores_;
  std::vector<std::pair<std::string, QueueStore>> queues_;
};

}  // namespace dovetail::storage
