// The Python module dlrm._dlrm. Arrays are shared with NumPy, and so with torch, without copies.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "dlrm/comm/launcher.h"
#include "dlrm/data/dataset_file.h"

#include "batches.h"
#include "tables.h"

namespace py = pybind11;

namespace {

using namespace dlrm;

using Ids = py::array_t<int64_t, py::array::c_style>;
using Floats = py::array_t<float, py::array::c_style>;

View<const int64_t> view_of(const Ids& ids) {
  return {ids.data(), static_cast<size_t>(ids.size())};
}

/// Keeps `owner`, which has the memory, alive.
template <class T>
Floats shared(MatrixView<T> m, const py::object& owner) {
  return Floats({m.rows, m.cols}, m.data, owner);
}

template <class T>
py::array_t<T> copied(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

py::tuple arrays_of(const Batch& batch) {
  const auto b = static_cast<py::ssize_t>(batch.size());
  py::array dense = copied(batch.dense);
  const py::ssize_t width = b > 0 ? dense.size() / b : 0;
  return py::make_tuple(dense.reshape({b, width}), copied(batch.labels), copied(batch.ids),
                        copied(batch.offsets), copied(batch.id_weights));
}

/// Shares the memory of a dict of arrays by name.
std::vector<NamedTensor> tensors_of(const py::dict& arrays) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, array] : arrays) {
    auto floats = py::cast<Floats>(array);
    tensors.push_back({fmt::format("/{}", py::cast<std::string>(name)),
                       {floats.shape(), floats.shape() + floats.ndim()},
                       floats.mutable_data()});
  }
  return tensors;
}

/// Calls `work` without Python's lock, which other threads may take meanwhile.
template <class Work>
auto unlocked(Work work) {
  const py::gil_scoped_release release;
  return work();
}

void define_session(py::module_& m) {
  py::class_<Session, std::shared_ptr<Session>>(m, "Session")
      .def(py::init([](int threads) {
             return unlocked([&] { return std::make_shared<Session>(nullptr, nullptr, threads); });
           }),
           py::arg("threads"))
      .def(py::init([](int communicator, double timeout, int threads) {
             return unlocked([&] {
               return std::make_shared<Session>(RunningMpi{communicator}, timeout, threads);
             });
           }),
           py::arg("communicator"), py::arg("timeout"), py::arg("threads"))
      .def_property_readonly("rank", &Session::rank)
      .def_property_readonly("size", &Session::size)
      .def("start_watchdog",
           [](Session& s, double timeout) { s.world().start_watchdog(timeout, s.context().trace); })
      .def(
          "sum",
          [](Session& s, Floats& data) {
            const View<float> view(data.mutable_data(), static_cast<size_t>(data.size()));
            unlocked([&] { s.comm().allreduce<float>(view); });
          },
          py::arg("data").noconvert())
      .def("end_all",
           [](Session& s, int code, const std::string& text) {
             const py::gil_scoped_release release;
             s.world().end_all(static_cast<ExitCode>(code), text);
           })
      .def("finish", [](Session& s) { unlocked([&] { s.world().finish(); }); });
}

void define_tables(py::module_& m) {
  py::class_<RunConfig>(m, "Config");
  m.def("parse_config",
        [](const std::string& yaml, const std::string& name) { return parse_config(yaml, name); });
  py::class_<Tables>(m, "Tables")
      .def(py::init([](std::shared_ptr<Session> session, const RunConfig& config) {
        return unlocked([&] { return std::make_unique<Tables>(session, config); });
      }))
      .def(
          "forward",
          [](const py::object& self, const Ids& ids, const Ids& offsets, const Floats& weights) {
            auto& tables = self.cast<Tables&>();
            const auto i = view_of(ids), o = view_of(offsets);
            const View<const float> w{weights.data(), static_cast<size_t>(weights.size())};
            return shared(unlocked([&] { return tables.forward(i, o, w); }), self);
          },
          py::arg("ids").noconvert(), py::arg("offsets").noconvert(),
          py::arg("weights").noconvert())
      .def("gradient",
           [](const py::object& self) { return shared(self.cast<Tables&>().gradient(), self); })
      .def("update", &Tables::update, py::call_guard<py::gil_scoped_release>())
      .def("drop", &Tables::drop, py::call_guard<py::gil_scoped_release>())
      .def("save",
           [](Tables& tables, const std::string& directory, const py::dict& arrays, int keep) {
             const std::vector<NamedTensor> tensors = tensors_of(arrays);
             unlocked([&] { tables.save(directory, tensors, keep); });
           })
      .def("load",
           [](Tables& tables, const std::string& directory, const py::dict& arrays,
              bool weights_only) {
             const std::vector<NamedTensor> tensors = tensors_of(arrays);
             unlocked([&] { tables.load(directory, tensors, weights_only); });
           })
      .def_property_readonly("share", &Tables::share)
      .def_property_readonly("step", &Tables::step)
      .def_property_readonly("width", &Tables::width)
      .def_property_readonly("features", &Tables::features)
      .def_property_readonly("learning_rate", &Tables::learning_rate)
      .def_property_readonly("plan", &Tables::plan);
}

void define_batches(py::module_& m) {
  m.def("dense_width", [](const std::vector<std::string>& paths) {
    return Dataset(paths).files().front()->dense_width();
  });
  py::class_<Batches>(m, "Batches")
      .def(py::init<const RunConfig&, int, int>())
      .def_property_readonly("per_epoch", &Batches::per_epoch)
      .def_property_readonly("samples", &Batches::samples)
      .def("load",
           [](const Batches& batches, int64_t t) {
             Batch batch;
             unlocked([&] { batches.load(t, batch); });
             return arrays_of(batch);
           })
      .def("start", &Batches::start)
      .def("next", [](Batches& batches) -> py::object {
        const Batch* batch = unlocked([&] { return batches.next(); });
        return batch ? py::object(arrays_of(*batch)) : py::none();
      });
}

}  // namespace

PYBIND11_MODULE(_dlrm, m) {
  // Lives as long as the interpreter, since any later error may need it.
  static PyObject* const error = PyErr_NewException("dlrm.Error", PyExc_RuntimeError, nullptr);
  m.attr("Error") = py::reinterpret_borrow<py::object>(error);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& caught) {
      const py::object made = py::reinterpret_borrow<py::object>(error)(caught.what());
      made.attr("code") = static_cast<int>(caught.code());
      PyErr_SetObject(error, made.ptr());
    }
  });
  m.def("launched_in_parallel", [] { return comm::detect_launch().parallel; });
  define_session(m);
  define_tables(m);
  define_batches(m);
}
