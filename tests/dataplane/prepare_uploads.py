"""Opens the forms of event 0 that take files; prints the fields of its registration form as JSON.

Run in a process of its own: Indico is configured once a process.
"""
import datetime
import json

import pytz
from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.conference import ConferenceHolder
from MaKaC.paperReviewing import ConferencePaperReview
from MaKaC.registration import GeneralField

FIRST, LAST = [datetime.datetime(year, 1, 1, tzinfo=pytz.utc) for year in (2000, 2100)]
FILE_FIELD = {'caption': 'A file', 'input': 'file', 'inputValues': {}, 'mandatory': False,
              'billable': False, 'price': '', 'placesLimit': '0', 'description': '', 'disabled': False}


def open_registration(event):
    form = event.getRegistrationForm()
    form.activate()
    form.setStartRegistrationDate(FIRST)
    form.setEndRegistrationDate(LAST)
    for each in form.getSortedForms():
        each.setEnabled(False)
    section = form.getPersonalData()
    section.setEnabled(True)
    section.addToSortedFields(GeneralField(section, FILE_FIELD))
    return dict((each.getCaption(), each.getInput().getHTMLName()) for each in section.getSortedFields())


def open_call_for_abstracts(event):
    calls = event.getAbstractMgr()
    calls.activeCFA()
    calls.setStartSubmissionDate(FIRST)
    calls.setEndSubmissionDate(LAST)
    calls.setAllowAttachFiles(True)
    for field in calls.getAbstractFieldsMgr().getFields():
        field.setMandatory(False)


ContextManager.set('autoOps', [])
DBMgr.getInstance().startRequest()
event = ConferenceHolder().getById('0')
names = open_registration(event)
open_call_for_abstracts(event)
event.getConfPaperReview().setChoice(ConferencePaperReview.CONTENT_REVIEWING)
DBMgr.getInstance().endRequest(True)
print(json.dumps(names))
