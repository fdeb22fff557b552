(function () {
  'use strict';
  var form = document.querySelector('form');
  var search = document.getElementById('search');
  var status = document.getElementById('shown');
  var suites = Array.prototype.map.call(document.querySelectorAll('.suite'), function (suite) {
    return { element: suite, head: suite.querySelector('h2').parentNode, cases: Array.prototype.slice.call(suite.querySelectorAll('.case')) };
  });
  var texts = new Map();
  function textOf(element) {
    if (!texts.has(element)) texts.set(element, element.textContent.toLowerCase());
    return texts.get(element);
  }
  function filter() {
    var words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    var wanted = form.elements.status.value;
    var shown = 0, all = 0;
    suites.forEach(function (suite) {
      var head = suite.element.dataset.head.toLowerCase();
      var some = false;
      suite.cases.forEach(function (one) {
        all += 1;
        var is = wanted === 'all' || one.dataset.status.split(' ').indexOf(wanted) >= 0;
        is = is && words.every(function (word) { return head.indexOf(word) >= 0 || textOf(one).indexOf(word) >= 0; });
        one.hidden = !is;
        if (is) { some = true; shown += 1; }
      });
      var lab = suite.element.dataset.status === 'error' && (wanted === 'all' || wanted === 'failed') &&
        words.every(function (word) { return textOf(suite.element).indexOf(word) >= 0; });
      suite.element.hidden = !some && !lab;
    });
    status.textContent = shown + ' of ' + all + ' tests shown';
  }
  document.documentElement.classList.add('js');
  form.addEventListener('input', filter);
  form.addEventListener('submit', function (event) { event.preventDefault(); });
  filter();
})();
