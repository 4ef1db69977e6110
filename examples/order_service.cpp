// A small order service on embedded SQLite that survives the crash of a worker.
//
//   order_service [--orders N] [--database FILE] [--keep-open]
//
// The shop stores each order and its messages in one transaction: three parcels to pack and, when
// all three are packed, the order to ship (a fan-out and its join). Three worker processes pack and
// ship. Their writes commit together with the acks of the messages. The program kills one of the
// workers. Its messages become ready again when their leases expire, and the other workers handle
// them. No order is shipped twice or too early.
//
// With --keep-open the shop and its workers go on after the report, until a signal ends them: there
// is an order every second, and some invoices that cannot be printed. `./run --dashboard` does so.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"

namespace {

using namespace std::chrono_literals;
using dovetail::Platform;

constexpr int worker_count = 3;
constexpr int parcels = 3;                       // per order
constexpr int messages_per_order = parcels + 2;  // and join.wait, and order.ship
constexpr auto lease = 1s;

// --- the worker process

[[noreturn]] void work(const std::string& database) {
  auto platform = Platform::open(database, {.worker = {.lease = lease, .poll_interval = 50ms}});
  platform.on("parcel.pack", [](const dovetail::Message& order, dovetail::HandlerContext& context) {
    std::this_thread::sleep_for(1ms);  // packing takes some time
    context.transaction().execute("update orders set packed = packed + 1 where id = $1",
                                  std::stoll(order.payload));
  });
  platform.on("order.ship", [](const dovetail::Message& order, dovetail::HandlerContext& context) {
    context.transaction().execute(
        "update orders set shipped = shipped + 1, early = early + (packed < $2) where id = $1",
        std::stoll(order.payload), parcels);
  });
  platform.on("invoice.print",
              [](const dovetail::Message& invoice, dovetail::HandlerContext&) {
                if (std::stoll(invoice.payload) % 5 == 0) throw std::runtime_error("out of paper");
              },
              {.max_attempts = 2});
  platform.on("stock.count", [](const dovetail::Message&, dovetail::HandlerContext&) {});
  platform.start();
  for (;;) ::pause();
}

class Worker {
 public:
  Worker(const char* program, const std::string& database) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the worker ends with its shop
    ::execl(program, program, "--worker", database.c_str(), nullptr);
    ::_exit(127);
  }
  ~Worker() { kill(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

// --- the shop

void take_order(Platform& platform, int id) {
  auto tx = platform.begin();
  tx.execute("insert into orders (id, item) values ($1, $2)", id,
             "chisel no. " + std::to_string(id));
  dovetail::FanOut fan;
  for (int parcel = 0; parcel < parcels; ++parcel) {
    fan.steps.push_back({.topic = "parcel.pack", .payload = std::to_string(id)});
  }
  fan.wait = {.on_complete_topic = "order.ship", .on_complete_payload = std::to_string(id)};
  platform.joins().fan_out(tx, fan);
  tx.commit();
}

void take_orders(Platform& platform, int orders) {
  auto setup = platform.begin();
  setup.execute(
      "create table orders (id integer primary key, item text not null, packed integer not null "
      "default 0,"
      " shipped integer not null default 0, early integer not null default 0)");
  setup.commit();
  for (int id = 1; id <= orders; ++id) take_order(platform, id);
}

/// An order every second, with its invoice, and a job every minute.
[[noreturn]] void keep_open(Platform& platform, int orders) {
  platform.jobs().create_or_update(
      {.name = "count-the-stock", .topic = "stock.count", .cron = "* * * * *"});
  std::cout << "The shop stays open: an order every second." << std::endl;
  for (int id = orders + 1;; ++id) {
    take_order(platform, id);
    platform.outbox().enqueue({.topic = "invoice.print", .payload = std::to_string(id)});
    std::this_thread::sleep_for(1s);
  }
}

/// Shows a progress bar on a terminal, otherwise a line at every quarter.
class Progress {
 public:
  explicit Progress(int total) : total_(total) {}

  void show(int done) {
    const int percent = done * 100 / total_;
    if (on_terminal_) {
      const auto filled = static_cast<std::size_t>(percent * 40 / 100);
      std::cout << "\r  working [" << std::string(filled, '#') << std::string(40 - filled, '.')
                << "] " << done << "/" << total_ << std::flush;
      if (done == total_) std::cout << "\n";
    } else if (percent / 25 > shown_quarter_) {
      shown_quarter_ = percent / 25;
      std::cout << "  work done: " << done << " of " << total_ << " orders" << std::endl;
    }
  }
  void say(const std::string& line) const {
    std::cout << (on_terminal_ ? "\r\033[K" : "") << line << std::endl;
  }

 private:
  int total_;
  int shown_quarter_ = 0;
  bool on_terminal_ = ::isatty(STDOUT_FILENO) == 1;
};

/// Waits until every message is done, and kills a worker after a third of the work. Returns false
/// after 60 seconds.
bool watch(Platform& platform, std::vector<std::unique_ptr<Worker>>& workers, int orders) {
  Progress progress(orders);
  const auto give_up_at = std::chrono::steady_clock::now() + 60s;
  bool killed = false;
  for (;;) {
    const auto counts = platform.outbox().counts();
    const int done = static_cast<int>(counts.done) / messages_per_order;
    progress.show(done);
    if (counts.done == std::int64_t{orders} * messages_per_order) return true;
    if (std::chrono::steady_clock::now() > give_up_at) return false;
    if (!killed && done > orders / 3) {
      workers.front()->kill();
      killed = true;
      progress.say(
          "  worker 1 is killed (kill -9); its messages are retried when its lease of 1 s expires");
    }
    std::this_thread::sleep_for(10ms);
  }
}

int report(Platform& platform, int orders) {
  auto tx = platform.begin();
  const auto row = tx.query(
                         "select count(*), sum(shipped > 0), sum(shipped > 1), sum(packed), "
                         "sum(early) from orders")
                       .at(0);
  const auto written = row.get<std::int64_t>(0);
  const auto shipped = row.get<std::int64_t>(1);
  const auto twice = row.get<std::int64_t>(2);
  const auto packed = row.get<std::int64_t>(3);
  const auto early = row.get<std::int64_t>(4);
  std::cout << "\n  orders written      " << written << "\n  parcels packed      " << packed
            << "\n  orders shipped      " << shipped << "\n  shipped twice       " << twice
            << "\n  shipped too early   " << early << "\n\n";
  const bool good = written == orders && packed == std::int64_t{orders} * parcels &&
                    shipped == orders && twice == 0 && early == 0;
  std::cout << (good ? "Every order was shipped exactly once, when its last parcel was packed.\n"
                     : "An order was lost, shipped twice or shipped too early!\n");
  return good ? 0 : 1;
}

struct Shop {
  int orders = 300;
  std::string file{};  ///< Empty: a temporary one.
  bool stays_open = false;
};

int run_shop(const char* program, const std::string& database, const Shop& shop) {
  auto platform = Platform::open(database, {.deploy_schema = true});
  std::cout << "Dovetail " << dovetail::version() << ": an order service on " << database << "\n\n";
  std::cout << "  taking " << shop.orders
            << " orders; one transaction stores an order and its messages" << std::endl;
  take_orders(platform, shop.orders);
  std::cout << "  starting " << worker_count << " worker processes" << std::endl;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < worker_count; ++i)
    workers.push_back(std::make_unique<Worker>(program, database));
  const bool finished = watch(platform, workers, shop.orders);
  if (!finished) std::cout << "The workers did not finish in time.\n";
  const int code = finished ? report(platform, shop.orders) : 1;
  if (code == 0 && shop.stays_open) keep_open(platform, shop.orders);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  Shop shop;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto value = i + 1 < arguments.size() ? arguments[i + 1] : std::string{};
    if (arguments[i] == "--worker") work(value);
    if (arguments[i] == "--orders") shop.orders = std::clamp(std::atoi(value.c_str()), 1, 50'000);
    if (arguments[i] == "--database") shop.file = value;
    if (arguments[i] == "--keep-open") shop.stays_open = true;
  }
  const auto directory =
      std::filesystem::temp_directory_path() / ("dovetail-demo-" + std::to_string(::getpid()));
  const auto file = shop.file.empty() ? (directory / "orders.db").string() : shop.file;
  int code = 1;
  try {
    std::filesystem::create_directories(std::filesystem::path{file}.parent_path());
    code = run_shop("/proc/self/exe", "sqlite:" + file, shop);
  } catch (const std::exception& error) {
    std::cerr << "order_service: " << error.what() << "\n";
  }
  std::filesystem::remove_all(directory);
  return code;
}
