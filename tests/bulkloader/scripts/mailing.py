"""Lets Indico send mail and log an error, outside the bulk loader or in each conference it makes.

Arguments: 'outside', or 'inside' and those of bulkload.
"""
import sys

from bulkloader.__main__ import main
from bulkloader.mail import no_mail


def mail():
    from MaKaC.common.logger import Logger
    from MaKaC.common.mail import GenericMailer
    GenericMailer.send({'fromAddr': 'from@conference.invalid', 'subject': 'x', 'body': 'y',
                        'toList': ['to@conference.invalid']})
    Logger.get('test').error('an error for the test')


if sys.argv[1] == 'outside':
    mail()
else:
    with no_mail():
        from bulkloader import model
    make_conference = model.make_conference

    def make_and_mail(*args):
        mail()
        return make_conference(*args)

    model.make_conference = make_and_mail
    sys.exit(main(sys.argv[2:]))
